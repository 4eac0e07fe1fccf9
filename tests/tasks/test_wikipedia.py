"""Wiki markup: what is words of the text, and what is not. More in test_normalize.py."""

import time

import pytest

from tasks.wikipedia import strip_wikitext


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        # templates
        ("The {{lang|de|Stuhl}} ({{lang-el|ἱστός}}, {{IPA|x}}) wove.", "The Stuhl (ἱστός) wove."),
        ("{{convert|12|km|mi|abbr=on}} long {{nowrap|and ''wide''}}.", "12 km long and wide."),
        ("From {{unknown|x|{{deep|y}}}}, she said.", "From, she said."),
        ("1914{{ndash}}18{{'}}s, {{transl|ar|ALA|naul}}", "1914–18's, naul"),
        ("He is \"one\" ({{lang|ar|}}''{{x}}'') of many ({{y}}).", 'He is "one" of many.'),
        ("{{quote|text=hidden|Seen [[a|b]].|author=c}}", "Seen b."),
        # links, files, categories, other languages
        ("[[Loom]]s, [[Loom (device)|looms]] [[:Category:X]]", "Looms, looms Category:X"),
        ("[[Файл:a b.jpg|мини|Текст [[x]]]] [[File:x.svg]][[Category:Y]]z", "z"),
        ("end\n[[fr:Métier à tisser]]\n[[zh-min-nan:X]]\n[[Категория:Ткачество]]", "end"),
        ("[http://x.org the site] [https://x.org] //y", "the site  //y"),
        # references and formulas
        ("A<ref>b {{c}} [[d]]</ref> e<ref name=f /> g<REF name='h'>i</REF>.", "A e g."),
        ("<math>x^2 < {{y}}</math>so <chem>H2O</chem> <gallery>\na.jpg|b\n</gallery>z", "so  z"),
        # tables
        ("a\n{| class=x\n! h\n|-\n| c || [[d]]\n{|\n| e\n|}\n|}\nf", "a\n\nf"),
        # what is no markup
        ("<nowiki>[[a]] ''b'' {{c}} * =d= <i></nowiki>", "[[a]] ''b'' {{c}} * =d= <i>"),
        ("<pre>\n* a == b\n&lt;c&gt;</pre>", "\n* a == b\n<c>"),
        ("a<nowiki/>b <nowiki>open [[x]]", "ab open x"),
        ("a <!-- [[b]] {{ --> c", "a  c"),
        # entities, headings, lists
        ("&lt;b&gt; &amp;amp; &#8212; &nbsp;x", "<b> &amp; — \xa0x"),
        ("== ''Head'' ==\n* one\n** two\n: three\n__NOTOC__", "Head\none\ntwo\nthree"),
        ("'''bold''' ''it'' <span style='x'>in</span><br/>next <includeonly>z</includeonly>",
         "bold it in\nnext"),
    ],
)  # fmt: skip
def test_what_is_left_of_markup(markup: str, text: str) -> None:
    assert strip_wikitext(markup).strip() == text.strip()


@pytest.mark.parametrize(
    "unit", ["<nowiki>", "<pre>", "</nowiki>", "{{lang|", "{{a}} ,", "<nowiki>x</nowiki>", "|x="]
)
def test_none_of_it_takes_more_than_linear_time(unit: str) -> None:
    began = time.process_time()
    strip_wikitext("{{lang|" + unit * 50_000 + "}}")
    assert time.process_time() - began < 5  # quadratic time would be minutes
