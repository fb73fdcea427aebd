import type { Usage } from '#db/money.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { promptSize } from '#server/limits/prompt-estimate.ts';
import { SPEECH_CHARACTERS_PER_SECOND, SPEECH_TOKENS_PER_SECOND } from '#server/media/bounds.ts';
import { valueOf } from '#server/wire/json.ts';
import { createParser, type ParsedRequest } from '#server/wire/request-parser.ts';

/** How requests for speech are read: charged by their characters, or by the tokens of their models. Pure. */

const readSpeech = createParser({
  prompt: { name: 'input', forms: ['string'] },
  usage: 'never',
  limits: [],
  choices: [],
  besides: ['stream_format'],
});

const NO_TOKENS: Usage = { input: 0, cached: 0, output: 0, reasoning: 0 };

export function parseSpeech(body: Buffer): ParsedRequest | ApiError {
  const asked = readSpeech(body);
  if (asked instanceof ApiError) return asked;
  const { members } = asked.scanned;
  const format = members.get('stream_format');
  const input = members.get('input');
  const text = input ? (valueOf(body, input) as string) : '';
  const characters = lengthOf(text);
  const promptTokens = promptSize(Buffer.from(text)).tokens;
  return {
    ...asked,
    sse: format !== undefined && valueOf(body, format) === 'sse',
    completionLimit: null,
    replies: 'audio',
    sized: {
      promptTokens,
      units: { characters },
      unreported(priced) {
        // The provider counts the same characters. Tokens are reported in a stream of events alone.
        if (priced.includes('characters'))
          return { usage: { ...NO_TOKENS, details: { characters } }, source: 'counted' };
        const output = Math.ceil((characters * SPEECH_TOKENS_PER_SECOND) / SPEECH_CHARACTERS_PER_SECOND);
        return {
          usage: {
            ...NO_TOKENS,
            input: promptTokens,
            output,
            details: { characters, audio_output_tokens: output },
          },
          source: 'estimated',
        };
      },
    },
  };
}

/** In characters of Unicode, as providers count. */
function lengthOf(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}
