import { z } from 'zod';
import type { ServerResponse } from 'node:http';
import type { Key } from '#db/fold/key.ts';
import { replyOf } from '#server/http/respond.ts';
import { type ApiRoute, CALLERS, memberRoute } from '#server/dashboard/gate.ts';
import type { SignedIn } from '#server/sign-in/signed-in.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { SessionListener } from '#server/read-model/listeners.ts';
import { checkKey } from '#server/access/authenticate.ts';
import { handleCall } from '#server/relay/handle.ts';
import type { Relay } from '#server/relay/relay.ts';
import { CHAT } from '#server/relay/routes.ts';

/** A playground call names a key of the member's account instead of sending a secret. */
const KEY_HEADER = 'x-daybook-key';

const UNKNOWN = new ApiError('not_found', {
  message: `The header ${KEY_HEADER} must name a key of your account.`,
});

/** A running playground call. */
type UnderWay = { who: SignedIn; requestId: string; response: ServerResponse };

/**
 * `POST /api/v1/playground/chat/completions`: a call with a key of the member's account, without its secret.
 * From there on it is like any other call: the same permissions, limits and records. The relay reads its
 * body. It ends when the session ends or the member loses the permission to call.
 */
export function playgroundRoutes({ relay }: { relay: Relay }): ApiRoute[] {
  const underWay = new Set<UnderWay>();
  relay.readModel.onSession((event) => {
    for (const each of underWay) if (isOver(each.who, event)) end(relay, each);
  });
  return [
    memberRoute(
      'post',
      '/api/v1/playground/chat/completions',
      CALLERS,
      { reply: z.looseObject({}) },
      async ({ request, response }, who) => {
        const key = keyNamed(relay, request.headers[KEY_HEADER], who);
        if (key instanceof ApiError) return key;
        // The client disconnected during the session lookup, so no close event would follow.
        if (response.destroyed) return null;
        const reply = replyOf(response);
        const call: UnderWay = { who, requestId: reply.requestId, response };
        underWay.add(call);
        response.once('close', () => underWay.delete(call));
        try {
          await handleCall(
            relay,
            CHAT,
            request,
            response,
            reply,
            () => checkKey(key, relay.readModel.nowMs()) ?? key,
          );
        } catch (error) {
          if (!response.headersSent) throw error;
          response.destroy();
        }
        return null;
      },
    ),
  ];
}

/** Whether an event ends a member's running calls. Pure. */
function isOver({ session, member }: SignedIn, event: Parameters<SessionListener>[0]): boolean {
  if (event.type === 'session.closed') return event.session === session;
  if (event.member !== member.id) return false;
  return (
    event.type === 'member.removed' || (event.type === 'member.role_changed' && !CALLERS.includes(event.role))
  );
}

/** Relayed output is charged. A call that isn't recorded yet never is. */
function end(relay: Relay, { requestId, response }: UnderWay): void {
  const call = relay.running.members().find(({ request }) => request === requestId);
  if (call) call.fail('unauthenticated', 'access_revoked');
  else response.destroy();
}

function keyNamed(
  { readModel }: Relay,
  id: string | string[] | undefined,
  { member }: SignedIn,
): Key | ApiError {
  const key = typeof id === 'string' ? readModel.key(id) : undefined;
  return key?.account === member.account ? key : UNKNOWN;
}
