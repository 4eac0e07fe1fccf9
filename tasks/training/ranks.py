"""A rank of a training: its device, its share of the talk between ranks, its random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class Place:
    """Where a rank computes.

    Attributes:
        device: its device.
        rank: its number.
        world: the number of ranks; more than one talk over the default process group.
    """

    device: torch.device
    rank: int = 0
    world: int = 1

    @staticmethod
    def alone(gpus: int) -> Place:
        """The only rank, on a GPU if it is given one and there is one."""
        return Place(torch.device("cuda" if gpus and torch.cuda.is_available() else "cpu"))

    def put(self, batch: Any) -> Any:
        """A batch, a tuple of tensors, on the device."""
        if self.device.type == "cpu":
            return batch
        moved = (tensor.to(self.device, non_blocking=True) for tensor in batch)
        return type(batch)(*moved) if hasattr(batch, "_fields") else tuple(moved)

    def total(self, *values: float) -> list[float]:
        """Each value summed over all ranks in 64 bits; the same on every rank. Collective."""
        if self.world == 1:
            return [float(value) for value in values]
        sums = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(sums)
        return [float(value) for value in sums.tolist()]

    def distribute(self, module: nn.Module) -> nn.Module:
        """The module whose ``forward`` and ``backward`` average the gradients of all ranks."""
        if self.world == 1:
            return module
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(module, devices, forward_sync_buffers=False)

    def together(self, module: nn.Module, *, last: bool) -> AbstractContextManager[None]:
        """Gradients travel once a step, with the last of its parts."""
        if isinstance(module, DistributedDataParallel) and not last:
            silence: AbstractContextManager[None] = module.no_sync()
            return silence
        return nullcontext()

    # --- random numbers -----------------------------------------------------------------------

    def random_states(self) -> dict[str, Tensor]:
        """The generators of every rank, ``cpu.<rank>`` and ``cuda.<rank>``. Collective."""
        states = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        return {
            f"{kind}.{rank}": state
            for kind, mine in states.items()
            for rank, state in enumerate(self._gather(mine))
        }

    def seed(self, seed: tuple[int, ...], states: Mapping[str, Tensor]) -> None:
        """Set this rank's generators to saved states, or else seed them from ``seed``."""
        sequence = np.random.SeedSequence([*seed, self.rank])
        torch.manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))
        if (state := states.get(f"cpu.{self.rank}")) is not None:
            torch.set_rng_state(state)
        if self.device.type == "cuda" and (state := states.get(f"cuda.{self.rank}")) is not None:
            torch.cuda.set_rng_state(state, self.device)

    # --- what goes from batch to batch ---------------------------------------------------------

    def joined(self, carried: Sequence[tuple[Tensor, ...]]) -> dict[str, Tensor]:
        """The carried state of all streams of all ranks, by number. Collective.

        Args:
            carried: of each of this rank's parts.
        """
        mine = [torch.cat(parts).cpu() for parts in zip(*carried, strict=True)]
        ranks: list[Any] = [mine]
        if self.world > 1:
            ranks = [None] * self.world
            dist.all_gather_object(ranks, mine)
        return {str(i): torch.cat(parts) for i, parts in enumerate(zip(*ranks, strict=True))}

    def share(self, states: Mapping[str, Tensor], parts: int) -> list[tuple[Tensor, ...]]:
        """What ``joined`` made, for each of this rank's parts, however many ranks there were."""
        first, n = self.rank * parts, self.world * parts
        return [
            tuple(
                states[str(i)][
                    len(states[str(i)]) * p // n : len(states[str(i)]) * (p + 1) // n
                ].to(self.device)
                for i in range(len(states))
            )
            for p in range(first, first + parts)
        ]

    def _gather(self, mine: Tensor) -> list[Tensor]:
        if self.world == 1:
            return [mine]
        mine = mine.to(self.device)
        parts = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(parts, mine)
        return [part.cpu() for part in parts]


@contextmanager
def own_threads(threads: int, device: torch.device) -> Iterator[None]:
    """So many threads, and random numbers that leave those of the process as they were."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        torch.set_num_threads(before)


def precision_of(wanted: str, place: Place) -> str:
    """What "auto" means where all ranks are; any other wish is granted. Collective if "auto"."""
    if wanted != "auto":
        return wanted
    (fast,) = place.total(fast_bfloat16(place.device))
    return "bfloat16" if fast == place.world else "float32"


def fast_bfloat16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16 faster than float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return multiplies_bfloat16(torch.cpu.get_capabilities())


def multiplies_bfloat16(able: Mapping[str, object]) -> bool:
    """Whether a CPU that can do this multiplies bfloat16 faster than float32.

    AVX-512's instruction doubles the rate on AMD's and on Cooper Lake's cores. Intel's later cores,
    which know float16 too, leave that to AMX: where a virtual machine hides AMX from its guests,
    products of bfloat16 took 1.4 to 1.7 times as long as of float32 (2048 by 2048, two threads).
    """
    return bool(able.get("amx_bf16") or (able.get("avx512_bf16") and not able.get("avx512_fp16")))
