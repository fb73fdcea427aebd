import type { Key } from '#db/fold/key.ts';
import { replyOf } from '#server/answer.ts';
import { type ApiRoute, CALLERS, route, type SignedIn } from '#server/dashboard/gate.ts';
import { Refusal } from '#server/errors.ts';
import { judgeKey } from '#server/relay/authenticate.ts';
import { chatCompletions } from '#server/relay/chat-completions.ts';
import type { Relay } from '#server/relay/relay.ts';

/** What a call in the playground says in place of a secret: the id of a key of the caller's own account. */
const KEY_HEADER = 'x-daybook-key';

const UNKNOWN = new Refusal('not_found', { message: `The header ${KEY_HEADER} must name a key of your account.` });

/**
 * `POST /api/playground/chat/completions`: the call of a key whose secret nobody has at hand any more,
 * made by somebody who is signed in to its account. From the key on it is a call as any other: the
 * same permissions and limits, recorded alike. The relay reads its body by itself.
 */
export function playgroundRoutes({ relay }: { relay: Relay }): ApiRoute[] {
  return [
    route('post', '/api/playground/chat/completions', CALLERS, null, async ({ request, response }, who) => {
      const key = keyNamed(relay, request.headers[KEY_HEADER], who);
      if (key instanceof Refusal) return key;
      // It has left while its session was looked up, and would never be heard of again.
      if (response.destroyed) return null;
      try {
        await chatCompletions(relay, request, response, replyOf(response), () => judgeKey(key, relay.readModel.nowMs()) ?? key);
      } catch (error) {
        if (!response.headersSent) throw error;
        response.destroy();
      }
      return null;
    }),
  ];
}

function keyNamed({ readModel }: Relay, id: string | string[] | undefined, { member }: SignedIn): Key | Refusal {
  const key = typeof id === 'string' ? readModel.key(id) : undefined;
  return key?.account === member.account ? key : UNKNOWN;
}
