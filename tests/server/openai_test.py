#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The `openai` package (packages.py) drives every endpoint of weft serve that it knows.

usage: openai_test.py WEFT MODEL SCRATCH_DIR [SANITIZER]
"""
import asyncio
import os
import pathlib
import sys

from serving import not_under_sanitizers, serving

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import packages

not_under_sanitizers()
packages.need("openai")
import openai

FOX = [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": "Tell me a story about a fox."}]


def chat(client):
    wish = {"model": "demo", "messages": FOX[1:], "max_tokens": 16, "temperature": 0}
    reply = client.chat.completions.create(**wish, logprobs=True, top_logprobs=2)
    text = reply.choices[0].message.content
    assert reply.choices[0].finish_reason == "length" and reply.usage.completion_tokens == 16
    assert "".join(one.token for one in reply.choices[0].logprobs.content) == text
    streamed, usage = "", None
    for event in client.chat.completions.create(**wish, stream=True, stream_options={"include_usage": True}):
        streamed += event.choices[0].delta.content or "" if event.choices else ""
        usage = event.usage or usage
    assert streamed == text and usage.completion_tokens == 16, (streamed, text)
    with client.chat.completions.create(**{**wish, "max_tokens": 500}, stream=True) as stream:
        next(iter(stream))  # and away
    several = client.chat.completions.create(**{**wish, "temperature": 1}, n=3, seed=5)
    assert [choice.index for choice in several.choices] == [0, 1, 2]


def completions(client):
    reply = client.completions.create(model="demo", prompt="Once upon a time", max_tokens=8, temperature=0, logprobs=3)
    assert reply.usage.completion_tokens == 8 and len(reply.choices[0].logprobs.tokens) == 8
    text = "".join(event.choices[0].text for event in
                   client.completions.create(model="demo", prompt="Once upon a time", max_tokens=8, temperature=0, stream=True))
    assert text == reply.choices[0].text
    word = text.split()[2]
    stopped = client.completions.create(model="demo", prompt="Once upon a time", max_tokens=8, temperature=0, stop=[word])
    assert stopped.choices[0].finish_reason == "stop" and word not in stopped.choices[0].text


def responses(client):
    wish = {"model": "demo", "input": "Tell me a story about a fox.", "max_output_tokens": 16, "temperature": 0}
    reply = client.responses.create(**wish)
    chat_reply = client.chat.completions.create(model="demo", messages=FOX[1:], max_tokens=16, temperature=0)
    assert reply.output_text == chat_reply.choices[0].message.content and reply.usage.output_tokens == 16, reply
    *events, last = client.responses.create(**wish, stream=True)
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == reply.output_text == last.response.output_text and last.type == "response.incomplete", (text, last)


def embeddings(client):
    """The package asks for base64 by itself and takes it apart."""
    texts = ["a fox and a dog", "the old house"]
    reply = client.embeddings.create(model="demo", input=texts)
    floats = client.embeddings.create(model="demo", input=texts, encoding_format="float")
    assert [one.index for one in reply.data] == [0, 1] and reply.usage.prompt_tokens > 3, reply
    for one, other in zip(reply.data, floats.data):
        assert len(one.embedding) == len(other.embedding) and abs(sum(x * x for x in one.embedding) - 1) < 1e-3
        assert max(abs(a - b) for a, b in zip(one.embedding, other.embedding)) < 1e-5
    try:
        client.embeddings.create(model="demo", input=[])
        raise SystemExit("no texts were not refused")
    except openai.BadRequestError as error:
        assert error.param == "input", error


def errors(client, url):
    assert client.models.list().data[0].id == "demo.gguf"
    for kind, wish in ((openai.BadRequestError, {"temperature": -3}), (openai.BadRequestError, {"stop": ["a"] * 20})):
        try:
            client.chat.completions.create(model="demo", messages=FOX[1:], **wish)
            raise SystemExit(f"{wish} was not refused")
        except kind as error:
            assert error.param == next(iter(wish)), error
    try:
        openai.OpenAI(base_url=url, api_key="wrong", max_retries=0).models.list()
        raise SystemExit("a wrong key was not refused")
    except openai.AuthenticationError:
        pass


async def at_once(url, key, count):
    client = openai.AsyncOpenAI(base_url=url, api_key=key)
    replies = await asyncio.gather(*(client.completions.create(model="demo", prompt="The sun", max_tokens=6, seed=n % 4,
                                                               temperature=0.8) for n in range(count)))
    texts = {}
    for n, reply in enumerate(replies):
        assert texts.setdefault(n % 4, reply.choices[0].text) == reply.choices[0].text
    await client.close()


def main():
    weft, model, scratch = sys.argv[1:4]
    os.makedirs(scratch, exist_ok=True)
    path = os.path.join(scratch, "keys_openai")
    with open(path, "w", encoding="utf-8") as file:
        file.write("a-key\n")
    with serving(weft, model, "--api-key-file", path, "--invariant") as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        with openai.OpenAI(base_url=url, api_key="a-key", max_retries=0) as client:
            chat(client)
            completions(client)
            responses(client)
            errors(client, url)
        asyncio.run(at_once(url, "a-key", 24))
    with serving(weft, model, "--embedding", "--invariant") as server:
        with openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0) as client:
            embeddings(client)


if __name__ == "__main__":
    main()
