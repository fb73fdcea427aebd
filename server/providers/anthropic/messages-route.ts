import { parseError } from '#server/providers/anthropic/errors.ts';
import { NativeSse } from '#server/providers/anthropic/native-sse.ts';
import { membersOf } from '#server/wire/raw-json.ts';
import { MESSAGES_PATH, VERSION_HEADER } from '#server/providers/anthropic/request.ts';
import { MessageRecord } from '#server/providers/anthropic/message-record.ts';
import type { JsonReply, Provider, ProviderCall, ProviderRequest } from '#server/providers/provider.ts';
import { bodyForUpstream } from '#server/wire/splice-body.ts';
import { scanObject } from '#server/wire/json.ts';

/**
 * Anthropic's Messages API for clients of that API, at any upstream that implements it: the bytes of
 * requests and replies pass as they are. Pure.
 */
export const messages: Provider = {
  request: nativeRequest,
  sse: ({ redactor }) => new NativeSse(redactor),
  json: readMessage,
  parseError: parseError,
};

function nativeRequest({
  body,
  parsed: asked,
  model,
  tokenLimit,
  protocolHeaders = [],
}: ProviderCall): ProviderRequest {
  const headers = protocolHeaders.includes('anthropic-version')
    ? protocolHeaders
    : [...VERSION_HEADER, ...protocolHeaders];
  return {
    path: MESSAGES_PATH,
    body: bodyForUpstream(body, asked, { model, tokenLimit, tokenLimitMember: 'max_tokens' }),
    headers,
    unsupported: [],
  };
}

/** Reads a whole message. @returns null for another text. */
export function readMessage(bytes: Buffer): JsonReply | null {
  try {
    scanObject(bytes, []);
  } catch {
    return null;
  }
  const text = bytes.toString('latin1');
  const message = membersOf(text);
  const record = new MessageRecord();
  record.whole(message);
  const { usage, promptUsage, isImplausible, facts } = record;
  const content = message.get('content');
  return {
    bytes,
    text,
    usage,
    promptUsage,
    isImplausible,
    facts,
    outputBytes: () => content?.length ?? 0,
    failed: content === undefined && message.get('error')?.[0] === '{',
  };
}
