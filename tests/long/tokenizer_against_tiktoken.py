#!/usr/bin/env python3
"""Compares GPT-2's tokenizer with tiktoken: every code point, alone and among others, and random texts.

    tests/long/tokenizer_against_tiktoken.py [--bin build/release/bin] [--texts 100000] [--seed 0]
    tests/long/tokenizer_against_tiktoken.py --golden tests/golden/gpt2_tokens.json     writes the tests' golden file

tiktoken uses the merges of text/gpt2/vocab.bpe, so nothing is downloaded. A difference is printed with its text. Exits with
1 if there is one.
"""
import argparse
import json
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
# The contexts of a code point, which replaces '_'. The class of a character affects how its neighbours are split.
PLACES = ["_", "a_b", " _ ", "1_2", " _a", "a_ ", "._.", " _.", "'_", "_'s", "\n_\n", "  _", "_  x", "\t_1", "_" * 3]


def gpt2():
    import tiktoken
    from tiktoken_ext.openai_public import r50k_pat_str

    printable = [b for b in range(256) if chr(b).isprintable() and chr(b) != " "]
    ordered = printable + [b for b in range(256) if b not in printable]
    letters = {chr(b): b for b in printable}
    letters |= {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)}
    ranks = {bytes([b]): i for i, b in enumerate(ordered)}
    for line in (ROOT / "text/gpt2/vocab.bpe").read_text().splitlines()[1:]:
        ranks[bytes(letters[c] for c in line.replace(" ", ""))] = len(ranks)
    assert len(ranks) == 50256
    return tiktoken.Encoding("gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={})


def members(pattern):
    """The code points that a pattern of tiktoken's regular expressions matches."""
    import tiktoken
    by_byte = tiktoken.Encoding("bytes", pat_str=pattern, mergeable_ranks={bytes([b]): b for b in range(256)}, special_tokens={})
    return [c for c in SCALARS if by_byte.encode_ordinary(chr(c))]


def every_code_point():
    for place in PLACES:
        for c in SCALARS:
            yield place.replace("_", chr(c))


def random_texts(count, seed):
    """Texts of random pieces: words, digits, white space of all kinds, endings, any character."""
    rng = random.Random(seed)
    space = [" ", " ", "  ", "   ", "\n", "\r\n", "\t", "\u00a0", "\u2003", "\u3000", "\x0b", "\x85", "\u200b"]
    endings = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'", "''", "\u2019s"]
    words = (ROOT / "text/tinyshakespeare/input.txt").read_text().split()[:20000]

    def piece():
        kind = rng.randrange(9)
        if kind == 0:
            return rng.choice(words)
        if kind == 1:
            return "".join(rng.choice(space) for _ in range(rng.randint(1, 4)))
        if kind == 2:
            return rng.choice(endings)
        if kind == 3:
            return str(rng.randrange(10 ** rng.randint(1, 12)))
        if kind == 4:
            return rng.choice("aeiost ") * rng.randint(1, 40)
        if kind == 5:
            return "".join(chr(rng.randrange(0x21, 0x7F)) for _ in range(rng.randint(1, 8)))
        if kind == 6:
            low = rng.choice([0x80, 0x370, 0x400, 0x5D0, 0x600, 0x900, 0x3040, 0x4E00, 0xAC00, 0x1F300, 0x20000])
            return "".join(chr(low + rng.randrange(0x80)) for _ in range(rng.randint(1, 6)))
        if kind == 7:
            return chr(rng.choice(SCALARS))
        return rng.choice([" ", ""]) + rng.choice(words)

    for _ in range(count):
        yield "".join(piece() for _ in range(rng.randint(1, 30)))


def golden(reference):
    """Texts with their ids, and the number and the CRC-32 (of u32, in order) of the code points of each class."""
    play = (ROOT / "text/tinyshakespeare/input.txt").read_text()
    texts = ["", " ", "\n", "hello world", "Hello, world! It's 2026.", play[:1000], "a" * 1000, " " * 1000,
             "naïve café — “quotes” … 北京大学 العربية हिन्दी 한국어 русский 👩\u200d👩\u200d👧 \U0001F1E9\U0001F1EA",
             "x\u0301 ²³ Ⅷ ½ \u0660\u0661 \u00a0\u2028\u3000 end", "<|endoftext|>", "don't DON'T we'll 'tis ''s 's't"]
    texts += random_texts(300, seed=1)
    classes = {}
    for name, pattern in (("letter", r"\p{L}"), ("number", r"\p{N}"), ("space", r"\s")):
        found = members(pattern)
        classes[name] = {"count": len(found), "crc32": zlib.crc32(struct.pack(f"<{len(found)}I", *found))}
    lines = [json.dumps({"text": text, "ids": reference.encode_ordinary(text)}) for text in texts]
    return '{"classes": %s,\n"texts": [\n%s\n]}\n' % (json.dumps(classes), ",\n".join(lines))


def encode(program, texts):
    """The ids of each text by our tokenizer."""
    raw = [text.encode() for text in texts]
    given = b"".join(struct.pack("<I", len(text)) + text for text in raw)
    result = subprocess.run([program], input=given, stdout=subprocess.PIPE, check=True).stdout
    at = 0
    for _ in texts:
        count, = struct.unpack_from("<I", result, at)
        yield list(struct.unpack_from(f"<{count}I", result, at + 4))
        at += 4 + 4 * count
    assert at == len(result)


def batches(texts, size=200_000):
    batch = []
    for text in texts:
        batch.append(text)
        if len(batch) == size:
            yield batch
            batch = []
    yield batch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--golden")
    options = parser.parse_args()
    program, reference = Path(options.bin) / "tokenize_cases", gpt2()
    if options.golden:
        Path(options.golden).write_text(golden(reference))
        return 0
    long_texts = ["a" * 1_000_000, " " * 1_000_000, "ab" * 300_000 + "\n" * 100_000]
    different = 0
    for name, texts in (("code points in their places", every_code_point()),
                        ("random texts", random_texts(options.texts, options.seed)), ("long texts", long_texts)):
        count = 0
        for batch in batches(texts):
            for text, ids in zip(batch, encode(program, batch), strict=True):
                expected = reference.encode_ordinary(text)
                count += 1
                if ids != expected:
                    different += 1
                    if different <= 20:
                        print(f"{text[:80]!r}: {ids[:20]}, tiktoken {expected[:20]}")
        print(f"{count} {name} compared", flush=True)
    print(f"{different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
