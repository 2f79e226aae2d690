# SPDX-License-Identifier: MIT
"""Writes cases.json: conversations as transformers renders and encodes them with the templates of this folder.

    pip install transformers jinja2 gguf tokenizers && python3 generate.py

The templates were written for this test; they have the marks and habits of the families, and not their tools.
The vocabularies are those of ../tokenizer.
"""
import json
import pathlib
import sys

from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tokenizer"))
import oracle  # noqa: E402
from tokenizers import Regex, normalizers  # noqa: E402

# The space that a template writes behind a control token is the one that SentencePiece puts in front of text: the ids are then those
# of mistral-common, which encodes each message by itself.
ONE_SPACE_IN_FRONT = normalizers.Sequence([normalizers.Replace(Regex(r"\A "), ""), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])

# vocabulary, bos, eos
TOKENS = {
    "llama": ("llama", "<s>", "</s>"),
    "mistral": ("llama", "<s>", "</s>"),
    "llama-3": ("llama-bpe", "<|begin_of_text|>", "<|eot_id|>"),
    "chatml": ("qwen2", None, "<|im_end|>"),
    "qwen": ("qwen2", None, "<|im_end|>"),
    "smollm": ("smollm", "<|im_start|>", "<|im_end|>"),
}

SYSTEM = {"role": "system", "content": "You answer in one line.\nYou never shout."}


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


CONVERSATIONS = [
    [user("Hello")],
    [SYSTEM, user("Who wove this?")],
    [user("  spaces before and after \n")],
    [SYSTEM, user("One"), assistant("Two"), user("Three")],
    [user("One"), assistant(" Two \n\n"), user("\u3000Three\u00a0")],
    [user("Größe und 漢字 🦊\n\n\nfor (;;) { }"), assistant("e\u0301t\u00e9"), user("\n\nlines"), assistant("last words")],
    [SYSTEM, user("a"), assistant("b"), user("c"), assistant("d"), user("e")],
    [user("What is 2 + 2?"), assistant("<think>\nAdd them.\n</think>\n\n4"), user("And 3?")],
    [user("What is 2 + 2?"), assistant("<think>\nAdd them.\n</think>\n\n4")],
    [user("What is 2 + 2?"), assistant("Add.</think>4")],
    [SYSTEM, user(""), assistant(""), user(" ")],
    [SYSTEM, user("   ")],
    [user("\x1c\x1d a\x1b \x1e\x1f"), assistant("\u2028\u0085b\u180e\u200b\v")],
    # orders that only some families know
    [user("a"), user("b")],
    [assistant("a"), user("b")],
    [user("a"), SYSTEM, user("b")],
    [SYSTEM],
    [user("q"), assistant("<think>\nlook\n</think>\n\ncall"), user("<tool_response>\n4\n</tool_response>"), assistant("done")],
    [user("q"), assistant("call"), user("<tool_response>\n4\n</tool_response>"), assistant("<think>x</think>done"), user("<tool_response></tool_response>")],
]


def tokens_of(name):
    return next(value for key, value in TOKENS.items() if name.startswith(key) and not (key == "llama" and name.startswith("llama-3")))


def loses_text(text, messages):
    """Some templates print nothing for a system message that is not first, or that stands alone: weft refuses those."""
    return text is not None and any(message["role"] != "assistant" and message["content"].strip() not in text for message in messages)


def render(tokenizer, messages, prompt, options):
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt, **options)
    except Exception:  # the template refuses
        return None, None
    ids = tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=prompt, return_dict=False, **options)
    return text, ids


def main():
    cases = []
    for path in sorted(HERE.glob("*.jinja")):
        vocabulary, bos, eos = tokens_of(path.stem)
        model = oracle.load(HERE.parent / "tokenizer" / f"{vocabulary}.gguf")
        if vocabulary == "llama":
            model.normalizer = ONE_SPACE_IN_FRONT
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=model,
                                            bos_token=bos, eos_token=eos, chat_template=path.read_text().rstrip("\n"))
        for messages in CONVERSATIONS:
            for prompt in (False, True):
                for thinking in (None, False, True) if path.stem == "qwen3" else (None,):
                    for date in (None, "29 Feb 2028") if path.stem == "llama-3.1" else (None,):
                        options = {} if thinking is None else {"enable_thinking": thinking}
                        options |= {} if date is None else {"date_string": date}
                        text, ids = render(tokenizer, messages, prompt, options)
                        if loses_text(text, messages):
                            text = ids = None
                        cases.append({"template": path.stem, "vocabulary": vocabulary, "messages": messages, "prompt": prompt,
                                      "thinking": thinking, "date": date, "text": text, "ids": ids})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (HERE / "cases.json").write_text("[\n" + lines + "\n]\n")
    print(f"{len(cases)} cases, {sum(case['text'] is None for case in cases)} refused")


if __name__ == "__main__":
    main()
