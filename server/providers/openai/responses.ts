import { parseError } from '#server/providers/openai/errors.ts';
import { ResponsesSse } from '#server/providers/openai/responses-sse.ts';
import { parsePromptUsage, parseUsage } from '#server/providers/openai/usage.ts';
import type { JsonReply, Provider } from '#server/providers/provider.ts';
import { bodyForUpstream } from '#server/wire/splice-body.ts';
import { scanObject, valueOf } from '#server/wire/json.ts';

/**
 * OpenAI's Responses API for clients of that API, at any upstream that implements it: the bytes of requests
 * and replies pass unchanged, and a stream reports its usage without being asked. Pure.
 */
export const responses: Provider = {
  request: ({ body, parsed: asked, model, tokenLimit }) => ({
    path: '/responses',
    body: bodyForUpstream(body, asked, { model, tokenLimit, tokenLimitMember: 'max_output_tokens' }),
    headers: [],
    unsupported: [],
  }),
  sse: ({ redactor }) => new ResponsesSse(redactor),
  json: readResponse,
  parseError: parseError,
};

const MEMBERS = ['status', 'output', 'usage', 'error'];
const OPEN_BRACE = 0x7b;

function readResponse(bytes: Buffer): JsonReply | null {
  try {
    const { members } = scanObject(bytes, MEMBERS);
    const [status, output, usage, error] = MEMBERS.map((name) => members.get(name));
    const isFailed = status !== undefined && valueOf(bytes, status) === 'failed';
    const report = usage ? valueOf(bytes, usage) : null;
    const reported = parseUsage(report);
    return {
      bytes,
      usage: reported,
      promptUsage: reported ? null : parsePromptUsage(report),
      outputBytes: output ? output.end - output.start : 0,
      failed: isFailed || (output === undefined && error !== undefined && bytes[error.start] === OPEN_BRACE),
    };
  } catch {
    return null;
  }
}
