import type { Usage } from '#db/money.ts';
import { parseJsonReply } from '#server/providers/openai/json-reply.ts';
import type { JsonReply } from '#server/providers/provider.ts';
import { asRecord } from '#server/wire/counts.ts';
import { TOKENS_BELIEVED_MAX } from '#server/wire/bounds.ts';
import { scanObject, valueOf } from '#server/wire/json.ts';
import { NO_FACTS } from '#server/wire/reply-facts.ts';

/**
 * A transcript, whose usage is tokens or the seconds of the recording: in `usage`, or in `duration` of its
 * verbose form. As a text or subtitles it states none. Pure.
 */
export function parseTranscript(bytes: Buffer): JsonReply {
  const reply = parseJsonReply(bytes);
  if (reply === null) return textReply(bytes);
  if (reply.usage !== null || reply.isImplausible || reply.failed) return reply;
  return { ...reply, usage: durationUsage(bytes), outputBytes: () => bytes.length };
}

function textReply(bytes: Buffer): JsonReply {
  return {
    bytes,
    text: null,
    usage: null,
    promptUsage: null,
    isImplausible: false,
    facts: NO_FACTS,
    outputBytes: () => bytes.length,
    failed: false,
  };
}

function durationUsage(bytes: Buffer): Usage | null {
  const { members } = scanObject(bytes, [], ['usage', 'duration']);
  const member = (name: string): unknown => {
    const span = members.get(name);
    return span && valueOf(bytes, span);
  };
  const usage = asRecord(member('usage'));
  // Older servers write the duration as a text.
  const ms = Math.ceil(Number(usage?.['seconds'] ?? member('duration')) * 1_000);
  if (!(ms >= 0 && ms <= TOKENS_BELIEVED_MAX)) return null;
  return { input: 0, cached: 0, output: 0, reasoning: 0, details: { media_ms: ms } };
}
