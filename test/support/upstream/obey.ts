import type { Subject } from './parts.ts';
import type { Script } from './script.ts';
import { seededRandom } from './split.ts';

/** A script as it is played to one request, with what that request made of it. */
export type Obeyed = Pick<Subject, 'choices' | 'isAtLimit'> & { script: Script };

/**
 * How long the reply to this request is: the script's length with its spread and, where the script
 * obeys, no longer than the request asks for, and as often.
 * @param attempt its number, which decides the spread.
 */
export function obeying(script: Script, body: Record<string, unknown>, attempt: number): Obeyed {
  const random = seededRandom(script.seed + Math.imul(attempt, 2_654_435_761));
  // The first number of such a generator still resembles its seed.
  random();
  const tokens = script.tokens + Math.floor(random() * (script.spread + 1));
  if (script.obey === 'no') return { script: { ...script, tokens }, choices: 1, isAtLimit: false };
  const limit = countOr(
    body['max_completion_tokens'] ?? body['max_output_tokens'] ?? body['max_tokens'],
    Infinity,
  );
  const most = Math.max(0, limit - script.reasoning);
  return {
    script: { ...script, tokens: Math.min(tokens, most) },
    choices: countOr(body['n'], 1),
    isAtLimit: tokens >= most,
  };
}

function countOr(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}
