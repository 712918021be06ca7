"""Prompts -> the context columns of the paper's RouterBench schema: length, code, mathematics, language group."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nasheval import InputError
from studies.prompts.characters import as_strings, token_counts
from studies.prompts.language import guess_language_group, language_group

Flags: TypeAlias = npt.NDArray[np.bool_]

# Any one of these makes a prompt one about code.
_CODE = (
    r"```",
    r"\b(?:def|class) \w+ ?[(:]|#include ?[<\"]|\bimport \w+ as \w|\bfrom [\w.]+ import \w|\bstd::",
    r"\bfunction ?\w* ?\([^)\n]*\) ?\{|\b(?:const|let|var) \w+ ?=|\bconsole\.log\b|\bSystem\.out\b|\bprintf ?\(",
    r"\bpublic (?:static|class)\b|\bSELECT\b.+\bFROM\b|#!/|\b(?:sudo|npm|mkdir) \w",
    r"</?(?:html|head|body|div|span|script|table|form)\b[^>\n]*>",
    r"(?i:\b(?:python|javascript|typescript|java|c\+\+|c#|php|kotlin|golang|sql|mysql|html|css|bash|powershell|regex|"
    r"numpy|pytorch|tensorflow|django|node\.?js|react\.?js|arduino|matlab|vba|docker|kubernetes|github)(?:\W|$))",
    r"(?i:\b(?:source code|pseudo-?code|code snippet|stack trace|unit tests?|programming|(?:bubble|merge|quick) ?sort|"
    r"c[oó]digo|programaci[oó]n|skrypt|programowani\w+|quellcode)\b)",
    r"(?i:\b(?:write|create|implement|fix|debug|refactor|complete|generate) (?:\S+ ){0,3}"
    r"(?:function|code|algorithm|subroutine|program (?:that|to|which|in))\b)",
    r"代码|编程|函数|程序设计|(?i:исходн\w+ код|код на |функци[юя] на |программировани)",
)
# Three of these do: lines that end like code, operators that prose does not have, calls of something with a name.
_CODE_SYNTAX = (
    r"(?m)[;{}][ \t]*$|[=!]==?[^=]|&&|\|\||\w->\w|::|\+=|\b\w{3,}\(\w*\)|^\s*(?:return|if|for|while)\b.*[:{]$"
)
_CODE_SYNTAX_LEAST = 3

# Any one of these makes a prompt one about mathematics.
_MATH = (
    r"\\(?:frac|sqrt|sum|int|prod|lim|boxed|cdot|times|leq?|geq?|alpha|beta|theta|lambda|mathbb|mathrm|left|begin)\b",
    r"\$[^$\n]*[\\^_=+<>][^$\n]*\$|\\\[|[∑∫√∞∂∈∀∃∏≤≥≠]",
    r"(?i:\b(?:math(?:s|ematic\w*)?|algebra\w*|geometr(?:y|ic)|calculus|trigonometr\w+|arithmetic|equations?|integrals?|"
    r"derivatives?|theorem|lemma|polynomials?|eigenvalues?|matri(?:x|ces)|logarithms?|factorial|quadratic|hypotenuse|"
    r"prime numbers?|square root|standard deviation|least common multiple|greatest common divisor|divisible by|"
    r"probability (?:that|of)|prove that|solve for|perimeter|remainder|integers?)\b)",
    r"(?i:\b(?:matem[aá]tic\w*|ecuaci[oó]n\w*|derivada|teorema|matematyk\w*|równani\w*|całk\w*|pochodn\w*))",
    r"(?i:математи|уравнени|интеграл|производн\w+ функц|теорем)|数学|方程|积分|导数|概率",
)
# Arithmetic and equations, outside code only, where they are everyday syntax.
_EQUATION = (
    r"\d ?[+*×÷^] ?\d|\d [-/] \d[\d. ]*=|\b\d*[a-z]\^?\d? ?[-+*/] ?\d*[a-z]?\d* ?= ?-?\d|\b[a-z] ?= ?-?\d+ ?[-+*/]"
)
# A question for a quantity, together with two numbers to work it out from.
_QUANTITY = (
    r"(?i)\bhow (?:many|much|long|far|old|fast)\b|\bwhat percent|\bcalculate\b|\bwhat(?: is|'s| was| are) the (?:\w+ )?"
    r"(?:sum|product|area|total|average|value|difference|ratio|percentage|probability|measure|length|volume|cost)\b"
)
_NUMBERS = r"(?i)\d+|\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|half|twice|double|dozen|third)\b"
_NUMBERS_LEAST = 2


def prompt_features(texts: object, language: object = None) -> pa.Table:
    """Compute the columns tokens, is_code, is_math and language_group of n prompts; a missing prompt's are null.

    Rules, not models, and stated where they are: token length counts runs of letters and digits, marks of
    punctuation, and single characters of scripts without spaces (`characters.token_counts`); code and mathematics
    are regular expressions (`_CODE`, `_MATH` and what follows them in this file); a language that is not given is
    guessed (`guess_language_group`).

    Args:
        texts: n prompts: a list, a NumPy array or a pyarrow array.
        language: n language codes or names; null where unknown, and None if none is known.
    """
    prompts = as_strings(texts)
    absent = np.asarray(prompts.is_null())
    code = _is_code(prompts)
    return pa.table(
        {
            "tokens": pa.array(token_counts(prompts), pa.int32(), mask=absent),
            "is_code": pa.array(code, mask=absent),
            "is_math": pa.array(_is_math(prompts, code), mask=absent),
            "language_group": _languages(prompts, language),
        }
    )


def _is_code(prompts: pa.LargeStringArray) -> Flags:
    code = _matches(prompts, "|".join(_CODE))
    rest = np.flatnonzero(~code)
    code[rest] = _counts(prompts.take(rest), _CODE_SYNTAX) >= _CODE_SYNTAX_LEAST
    return code


def _is_math(prompts: pa.LargeStringArray, code: Flags) -> Flags:
    asked = np.flatnonzero(_matches(prompts, _QUANTITY))
    math = _matches(prompts, "|".join(_MATH))
    math[asked] |= _counts(prompts.take(asked), _NUMBERS) >= _NUMBERS_LEAST
    rest = np.flatnonzero(~math & ~code)
    math[rest] = _matches(prompts.take(rest), _EQUATION)
    return math


def _languages(prompts: pa.LargeStringArray, language: object) -> pa.StringArray:
    if language is None:
        return guess_language_group(prompts)
    known = language_group(language)
    if len(known) != len(prompts):
        raise InputError(f"prompt features: {len(prompts):,} texts and {len(known):,} languages. Give one a text.")
    if not known.null_count:
        return known
    unknown = np.flatnonzero(np.asarray(known.is_null()))
    return pc.replace_with_mask(known, known.is_null(), guess_language_group(prompts.take(unknown)))


def _matches(prompts: pa.LargeStringArray, pattern: str) -> Flags:
    return np.array(pc.match_substring_regex(prompts, pattern=pattern).fill_null(False), dtype=np.bool_)


def _counts(prompts: pa.LargeStringArray, pattern: str) -> npt.NDArray[np.int64]:
    return np.asarray(pc.count_substring_regex(prompts, pattern=pattern).fill_null(0), dtype=np.int64)
