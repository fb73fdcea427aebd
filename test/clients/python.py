"""Runs one action of one Python client, and prints its result as JSON: python.py CLIENT ACTION BASE KEY MODEL NEXT"""

import json
import sys

HELLO = "When does the tide turn?"
RESULTS = ["noon at Leith", "dusk at Oban"]
NAMES = ["tool_0", "tool_1"]
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}
PIECES_SEEN = 3
client, action, base, key, model, following = sys.argv[1:]


def take(pieces):
    """All pieces; after an abort the first three."""
    taken = []
    for piece in pieces:
        if piece:
            taken.append(piece)
            if action == "abort" and len(taken) == PIECES_SEEN:
                break
    return taken


def openai_chat():
    from openai import OpenAI

    chat = OpenAI(base_url=base, api_key=key, max_retries=0).chat.completions
    asked = [{"role": "user", "content": HELLO}]
    tools = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES]
    if action == "chat":
        reply = chat.create(model=model, messages=asked)
        return {"text": reply.choices[0].message.content, "outputTokens": reply.usage.completion_tokens}
    if action == "tools":
        message = chat.create(model=model, messages=asked, tools=tools).choices[0].message
        results = [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in zip(message.tool_calls, RESULTS)]
        answer = chat.create(model=following, messages=[*asked, message, *results], tools=tools)
        calls = [{"name": call.function.name, "input": json.loads(call.function.arguments)} for call in message.tool_calls]
        return {"calls": calls, "text": answer.choices[0].message.content}
    with chat.create(model=model, messages=asked, stream=True) as stream:
        return take(chunk.choices[0].delta.content for chunk in stream if chunk.choices)


def openai_responses():
    from openai import OpenAI

    responses = OpenAI(base_url=base, api_key=key, max_retries=0).responses
    asked = [{"role": "user", "content": HELLO}]
    tools = [{"type": "function", "name": name, "parameters": SCHEMA, "strict": True} for name in NAMES]
    if action == "chat":
        reply = responses.create(model=model, input=HELLO)
        return {"text": reply.output_text, "outputTokens": reply.usage.output_tokens}
    if action == "tools":
        calls = [item for item in responses.create(model=model, input=HELLO, tools=tools).output if item.type == "function_call"]
        results = [{"type": "function_call_output", "call_id": call.call_id, "output": text} for call, text in zip(calls, RESULTS)]
        answer = responses.create(model=following, input=[*asked, *(call.to_dict() for call in calls), *results], tools=tools)
        return {"calls": [{"name": call.name, "input": json.loads(call.arguments)} for call in calls], "text": answer.output_text}
    with responses.create(model=model, input=HELLO, stream=True) as stream:
        return take(event.delta for event in stream if event.type == "response.output_text.delta")


def anthropic_messages():
    from anthropic import Anthropic

    messages = Anthropic(base_url=base.removesuffix("/v1"), api_key=key, max_retries=0).messages
    asked = [{"role": "user", "content": HELLO}]
    tools = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
    text_of = lambda message: "".join(block.text for block in message.content if block.type == "text")
    if action == "chat":
        reply = messages.create(model=model, max_tokens=1000, messages=asked)
        return {"text": text_of(reply), "outputTokens": reply.usage.output_tokens}
    if action == "tools":
        message = messages.create(model=model, max_tokens=1000, messages=asked, tools=tools)
        calls = [block for block in message.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in zip(calls, RESULTS)]
        turn = [*asked, {"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
        answer = messages.create(model=following, max_tokens=1000, messages=turn, tools=tools)
        return {"calls": [{"name": call.name, "input": call.input} for call in calls], "text": text_of(answer)}
    with messages.create(model=model, max_tokens=1000, messages=asked, stream=True) as stream:
        return take(event.delta.text for event in stream if event.type == "content_block_delta" and event.delta.type == "text_delta")


def google_genai():
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=base.removesuffix("/v1"))
    genai_client = genai.Client(api_key=key, http_options=options)  # It closes its connections when it is collected.
    models = genai_client.models
    declared = [types.FunctionDeclaration(name=name, parameters_json_schema=SCHEMA) for name in NAMES]
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=declared)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    if action == "chat":
        reply = models.generate_content(model=model, contents=HELLO)
        return {"text": reply.text, "outputTokens": reply.usage_metadata.candidates_token_count}
    if action == "tools":
        reply = models.generate_content(model=model, contents=HELLO, config=config)
        calls = reply.function_calls
        results = [
            types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": text}))
            for call, text in zip(calls, RESULTS)
        ]
        asked = types.Content(role="user", parts=[types.Part(text=HELLO)])
        turn = [asked, reply.candidates[0].content, types.Content(role="user", parts=results)]
        answer = models.generate_content(model=following, contents=turn, config=config)
        return {"calls": [{"name": call.name, "input": call.args} for call in calls], "text": answer.text}
    return take(chunk.text for chunk in models.generate_content_stream(model=model, contents=HELLO))


CLIENTS = {
    "openai": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic_messages,
    "google-genai": google_genai,
}
print(json.dumps(CLIENTS[client]()))
