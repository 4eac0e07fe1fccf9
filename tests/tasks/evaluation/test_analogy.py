"""Analogies: parity with gensim, and what "the N most frequent" means."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tasks.errors import InputError
from tasks.evaluation import analogy
from tasks.evaluation.lexicon import Case, Words
from tasks.evaluation.names import find_set
from tasks.evaluation.neighbours import nearest
from tasks.evaluation.score import Score
from tasks.evaluation.sets import AnalogySet, Question, read_analogies
from tests.tasks.evaluation.table import Table


def measure(
    name: str, table: Table, questions: AnalogySet, restrict: int = 300_000, case: Case = "fold"
) -> tuple[Score, Score]:
    return analogy.measure(name, Words(table, case), questions, restrict=restrict)


def question(a: str, b: str, c: str, *answers: str) -> Question:
    return Question(a, b, c, answers)


def planted(questions: AnalogySet, dim: int = 24, share: float = 0.9) -> Table:
    """Vectors in which many questions of a set come out, but far from all; lower-case words."""
    rng = np.random.default_rng(3)
    rows: dict[str, np.ndarray] = {}
    for section in questions.sections.values():
        offset = rng.standard_normal(dim)
        for q in section:
            for left, right in ((q.a.lower(), q.b.lower()), (q.c.lower(), q.answers[0].lower())):
                rows.setdefault(left, rng.standard_normal(dim))
                noise = 0.45 * rng.standard_normal(dim)
                rows.setdefault(right, rows[left] + offset + noise)
    words = [word for word in rows if rng.random() < share]
    others = [f"filler{i}" for i in range(500)]
    table = [*(rows[word] for word in words), *rng.standard_normal((len(others), dim))]
    order = rng.permutation(len(table))
    return Table.of([[*words, *others][i] for i in order], [table[i] for i in order])


@pytest.fixture(scope="module")
def google() -> Path:
    pytest.importorskip("gensim")
    return find_set("google", "analogy")[1]


def keyed(table: Table):
    from gensim.models.keyedvectors import KeyedVectors

    vectors = KeyedVectors(table.rows.shape[1])
    vectors.add_vectors(list(table.vocabulary.words), table.rows)
    return vectors


@pytest.mark.parametrize("restrict", [100_000, 900])
def test_equals_gensim_section_by_section(google: Path, restrict: int, tmp_path: Path) -> None:
    # Every fifth question: gensim takes them one at a time.
    lines = google.read_text("utf-8").splitlines()
    kept = [line for i, line in enumerate(lines) if line.startswith(":") or i % 5 == 0]
    path = tmp_path / "questions"
    path.write_text("\n".join(kept), "utf-8")
    questions = read_analogies(path)
    table = planted(questions)
    add, _ = measure("analogy.google", table, questions, restrict=restrict)
    accuracy, theirs = keyed(table).evaluate_word_analogies(str(path), restrict_vocab=restrict)
    assert 0.1 < accuracy < 0.9
    assert add.value == pytest.approx(accuracy, abs=1e-12)
    for section in theirs[:-1]:
        ours = add.details["sections"][section["section"]]
        asked = len(section["correct"]) + len(section["incorrect"])
        assert (ours["correct"], ours["scored"]) == (len(section["correct"]), asked)
    assert add.total == len(questions.questions)
    counted = keyed(table).evaluate_word_analogies(str(path), restrict, dummy4unknown=True)[0]
    assert add.details["other_policies"]["unknown questions as wrong"] == pytest.approx(
        counted, abs=1e-12
    )
    subsets = add.details["subsets"]
    assert (
        subsets["semantic"]["correct"] + subsets["syntactic"]["correct"] == add.details["correct"]
    )
    assert subsets["syntactic"]["total"] > subsets["semantic"]["total"] * 0.9


def test_cosmul_equals_its_definition(google: Path) -> None:
    questions = read_analogies(google)
    some = AnalogySet({"family": questions.sections["family"][:120]})
    table = planted(some, share=1.0)
    _, mul = measure("x", table, some)
    units = table.rows / np.linalg.norm(table.rows, axis=1, keepdims=True)
    shifted = (1 + units.astype(float) @ units.astype(float).T) / 2
    right = 0
    for q in some.questions:
        a, b, c, d = table.vocabulary.ids([q.a, q.b, q.c, *q.answers])
        scores = shifted[b] * shifted[c] / (shifted[a] + 1e-6)
        scores[[a, b, c]] = -1
        right += int(scores.argmax() == d)
    assert 0 < right < 120
    assert mul.details["correct"] == right
    assert mul.name == "x.3cosmul"


def grid() -> tuple[list[str], np.ndarray]:
    words = ["king", "queen", "man", "woman", "far", "away"]
    rows = np.array([[9, 9, 0], [9, 1, 0], [1, 9, 0.5], [1, 1, 0.5], [0, 0, 1], [-1, 0, 1]])
    return words, rows


ROYAL = AnalogySet({"royal": (question("man", "king", "woman", "queen"),)})


def test_restriction_goes_by_counts_not_by_rows() -> None:
    words, rows = grid()
    counts = np.array([60, 50, 40, 30, 20, 10])
    rng = np.random.default_rng(0)
    for restrict, scored in ((4, 1), (3, 0)):
        for _ in range(5):
            order = rng.permutation(len(words))
            table = Table.of([words[i] for i in order], rows[order], counts=counts[order])
            add, mul = measure("x", table, ROYAL, restrict=restrict)
            assert (add.scored, mul.scored) == (scored, scored)
            assert add.details["candidates"] == restrict
            assert add.value == (1.0 if scored else None)


def test_restriction_without_counts_is_refused() -> None:
    words, rows = grid()
    table = Table.of(words, rows, counts=[0] * 6)
    with pytest.raises(InputError, match="no counts"):
        measure("x", table, ROYAL, restrict=4)
    assert measure("x", table, ROYAL, restrict=6)[0].value == 1.0


def test_the_words_of_a_question_are_no_answers() -> None:
    # The nearest to king - man + woman is king itself here.
    words, rows = (
        ["king", "man", "woman", "queen", "x"],
        [[9, 1], [1, 1], [1, 1.1], [9, 5], [-1, 0]],
    )
    score, _ = measure("x", Table.of(words, rows), ROYAL)
    assert score.value == 1.0


def test_case_is_folded_on_both_sides_and_the_more_frequent_form_wins() -> None:
    rows = [[9, 9, 0], [9, 1, 0], [1, 9, 0.5], [1, 1, 0.5], [-5, 3, 0], [9, 1, 0.1]]
    words = ["King", "Queen", "man", "woman", "king", "queen"]
    table = Table.of(words, rows, counts=[60, 50, 40, 30, 2, 1])
    upper = AnalogySet({"royal": (question("MAN", "KING", "WOMAN", "QUEEN"),)})
    for questions in (ROYAL, upper):
        score, _ = measure("x", table, questions)
        assert (score.value, score.scored) == (1.0, 1)
        assert score.details["candidates"] == 4  # one form of each word
        assert "most frequent form" in score.policy
    exact, _ = measure("x", table, ROYAL, case="exact")
    assert exact.value == 0.0
    assert exact.details["candidates"] == 6


def test_chance_is_what_random_vectors_get() -> None:
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(12)]
    rows = tuple(question(*rng.choice(words, 4, replace=False)) for _ in range(300))
    right, asked, chance = 0.0, 0, 0.0
    for _ in range(20):
        table = Table.of(words, rng.standard_normal((12, 40)))
        score, _ = measure("x", table, AnalogySet({"all": rows}))
        right, asked = right + score.details["correct"], asked + score.scored
        chance = score.baselines[0].value
    assert chance == pytest.approx(1 / 9)
    assert right / asked == pytest.approx(chance, rel=0.15)


def test_no_covered_question_is_undefined() -> None:
    add, mul = measure("x", Table.of(["a", "b"], np.eye(2)), ROYAL)
    assert add.value is mul.value is None
    assert (add.scored, add.total) == (0, 1)
    assert add.details["other_policies"]["unknown questions as wrong"] == 0


@pytest.mark.parametrize("text", ["", ": a\none two three\n", "one two\n"])
def test_a_file_without_questions_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "q"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"0 of \d lines? parsed as four words"):
        read_analogies(path)


def test_neighbours_leave_out_the_word_itself_and_words_without_a_vector() -> None:
    words, rows = grid()
    found = nearest(Table.of(words, rows), ["king", "nobody"], k=2)
    assert list(found) == ["king"]
    assert [word for word, _ in found["king"]] == ["woman", "queen"]
    assert found["king"][0][1] == pytest.approx(18 / (1.5 * np.sqrt(162)), abs=1e-6)
    assert len(nearest(Table.of(words, rows), ["king"], k=50)["king"]) == 5


# --- BATS -----------------------------------------------------------------------------------


def test_pairs_of_words_become_questions_with_several_right_answers(tmp_path: Path) -> None:
    nouns, verbs = tmp_path / "I01 [noun - plural].txt", tmp_path / "L01.txt"
    nouns.write_text("cat\tcats\nox\toxen/oxes\nsea lion\tsea lions\n", "utf-8")
    verbs.write_text("go\twalk/run\n\nnothing\t\nsee\tlook\n", "utf-8")
    read = read_analogies({path.stem: path for path in (nouns, verbs)}, "bats")
    assert list(read.sections) == ["I01 [noun - plural]", "L01"]
    assert read.sections["L01"] == (
        question("go", "walk", "see", "look"),
        question("see", "look", "go", "walk", "run"),
    )
    assert len(read.sections["I01 [noun - plural]"]) == 6
    assert read.unread == 1
    rows = tmp_path / "many.txt"
    rows.write_text("\n".join(f"a{i}\tb{i}" for i in range(1001)), "utf-8")
    with pytest.raises(InputError, match="a section of 1,001 pairs"):
        read_analogies(rows)


def test_any_right_answer_will_do_but_none_of_the_question() -> None:
    words = ["man", "king", "woman", "queen", "lady", "far"]
    rows = [[1, 9, 0.5], [9, 9, 0], [1, 1, 0.5], [9, 1, 0], [0, -1, 3], [-1, 0, 1]]
    table = Table.of(words, rows)

    def asked(*answers: str) -> Score:
        questions = AnalogySet({"x": (question("man", "king", "woman", *answers),)})
        return measure("x", table, questions)[0]

    assert asked("empress", "Queen").value == 1.0
    assert asked("lady", "far").value == 0.0
    # What can never be answered is not asked.
    for answers in (("king",), ("empress", "man"), ("empress",)):
        score = asked(*answers)
        assert (score.value, score.scored, score.total) == (None, 0, 1)


def test_an_interval_stands_beside_the_accuracy(google: Path) -> None:
    questions = read_analogies(google)
    some = AnalogySet({name: questions.sections[name] for name in ("family", "currency")})
    add, _ = measure("x", planted(some), some)
    low, high = add.interval
    assert low < add.value < high
    assert add.range in add.line
