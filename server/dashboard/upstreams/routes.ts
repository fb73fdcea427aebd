import { ChangeReply } from '#server/contract/parts.ts';
import {
  AddCredential,
  AddUpstream,
  ChangeUpstream,
  CreatedCredential,
  UpstreamList,
  UpstreamModels,
  UpstreamTestResult,
} from '#server/contract/upstreams.ts';
import { UpstreamName } from '#db/events/parts.ts';
import { DIALECTS, type UpstreamTerms } from '#db/events/upstream-events.ts';
import { ConfigError } from '#server/process/config.ts';
import { makeChange } from '#server/dashboard/change.ts';
import type { Change } from '#server/contract/keys.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, type ApiRoute, ADMINISTRATORS_AND_AUDITORS, route } from '#server/dashboard/gate.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import { unavailable } from '#server/read/store.ts';
import { listUpstreams } from '#server/dashboard/upstreams/list.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { DIALECT_TRAITS } from '#server/providers/openai/dialects.ts';
import { UpstreamControl } from '#server/control/upstream-control.ts';
import { checkBaseUrl } from '#server/upstreams/addresses.ts';
import { listModels } from '#server/upstreams/list-models.ts';
import { testUpstream } from '#server/upstreams/test-upstream.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';

const STALE = unavailable('Upstream data');
const NOT_FOUND = new ApiError('not_found');
/** An interactive test; a slower upstream is of no use to calls either. */
const TEST_TIMEOUT_MS = 8_000;
const SUGGESTIONS_TIMEOUT_MS = 3_000;
const SUGGESTIONS_MAX = 2_000;

const DIALECT_DEFAULTS = Object.fromEntries(
  DIALECTS.map((dialect) => [
    dialect,
    { base_url: DIALECT_TRAITS[dialect].baseUrl, routes: DIALECT_TRAITS[dialect].routes },
  ]),
) as UpstreamList['dialects'];

/** Upstreams and their credentials: administrators manage them, auditors look. */
export function upstreamRoutes(dashboard: Dashboard): ApiRoute[] {
  const { config, credentials, relay } = dashboard;
  /** Concurrent requests share the running test. */
  const tests = new Map<Upstream, Promise<UpstreamTestResult>>();

  /** @param terms the new terms; an invalid address is reported at its field. */
  async function change<T extends Change>(
    who: Caller,
    use: (control: UpstreamControl) => Promise<T>,
    terms?: UpstreamTerms,
  ): Promise<T | ApiError> {
    try {
      const changed = await makeChange(dashboard, who, (control, client) =>
        use(new UpstreamControl(control, client, config)).catch(rethrowKeyFileError),
      );
      // What this process answers next is with the change, and a credential is one only when it is open.
      await credentials.refresh();
      return changed;
    } catch (error) {
      const isOfAddress =
        error instanceof DecisionError &&
        terms?.base_url !== undefined &&
        error.message === checkBaseUrl(terms.base_url, terms.network);
      if (!isOfAddress) throw error;
      return new ApiError('invalid_value', { message: error.message, param: 'terms.base_url' });
    }
  }

  function test(upstream: Upstream): Promise<UpstreamTestResult> {
    const running = tests.get(upstream);
    if (running) return running;
    const known = relay.readModel.directory.upstream(upstream.name);
    const begun = testUpstream(upstream, known?.state === 'active' ? known.credentials : [], TEST_TIMEOUT_MS)
      .then((data): UpstreamTestResult => ({ object: 'upstream_test', data }))
      .finally(() => tests.delete(upstream));
    tests.set(upstream, begun);
    return begun;
  }

  return [
    route(
      'get',
      '/api/v1/upstreams',
      'upstreams:read',
      ADMINISTRATORS_AND_AUDITORS,
      { reply: UpstreamList },
      async () =>
        relay.readModel.isCurrent()
          ? ({
              object: 'list',
              data: listUpstreams(relay, config, performance.now()),
              dialects: DIALECT_DEFAULTS,
            } satisfies UpstreamList)
          : STALE,
    ),

    route(
      'post',
      '/api/v1/upstreams',
      'upstreams:write',
      ADMINISTRATORS,
      { body: AddUpstream, reply: ChangeReply },
      ({ body: { name, terms } }, who) => change(who, (control) => control.addUpstream(name, terms), terms),
    ),

    route(
      'patch',
      '/api/v1/upstreams/:upstream',
      'upstreams:write',
      ADMINISTRATORS,
      { body: ChangeUpstream, reply: ChangeReply },
      async ({ params, body: { terms, paused } }, who) => {
        const name = nameOf(params);
        if (name instanceof ApiError) return name;
        if (terms === undefined)
          return change(who, (control) => control.pauseUpstream(name, paused === true));
        return change(
          who,
          (control) => control.changeUpstream(name, (before) => ({ ...terms, paused: before.paused })),
          terms,
        );
      },
    ),

    route(
      'delete',
      '/api/v1/upstreams/:upstream',
      'upstreams:write',
      ADMINISTRATORS,
      { reply: ChangeReply },
      async ({ params }, who) => {
        const name = nameOf(params);
        return name instanceof ApiError ? name : change(who, (control) => control.removeUpstream(name));
      },
    ),

    route(
      'post',
      '/api/v1/upstreams/:upstream/credentials',
      'upstreams:write',
      ADMINISTRATORS,
      { body: AddCredential, reply: CreatedCredential },
      async ({ params, body }, who) => {
        const name = nameOf(params);
        if (name instanceof ApiError) return name;
        const added = await change(who, (control) => control.addCredential(name, body));
        return added instanceof ApiError
          ? added
          : ({ ...added, object: 'credential' } satisfies CreatedCredential);
      },
    ),

    route(
      'delete',
      '/api/v1/upstreams/:upstream/credentials/:credential',
      'upstreams:write',
      ADMINISTRATORS,
      { reply: ChangeReply },
      async ({ params }, who) => {
        const name = nameOf(params);
        return name instanceof ApiError
          ? name
          : change(who, (control) => control.removeCredential(name, params['credential'] ?? ''));
      },
    ),

    route(
      'post',
      '/api/v1/upstreams/:upstream/test',
      'upstreams:write',
      ADMINISTRATORS,
      { reply: UpstreamTestResult },
      async ({ params }) => {
        // An administrator who has just installed a master key tests at once.
        await credentials.refresh();
        const upstream = relay.upstreams.get(params['upstream'] ?? '');
        return upstream ? test(upstream) : NOT_FOUND;
      },
    ),

    route(
      'get',
      '/api/v1/upstreams/:upstream/models',
      'upstreams:read',
      ADMINISTRATORS,
      { reply: UpstreamModels },
      async ({ params }) => {
        const upstream = relay.upstreams.get(params['upstream'] ?? '');
        if (!upstream) return NOT_FOUND;
        const [line] = upstream.pools;
        const answer = line
          ? await listModels(line, SUGGESTIONS_TIMEOUT_MS)
          : { models: null, problem: null };
        return {
          object: 'list',
          data: answer.models?.slice(0, SUGGESTIONS_MAX) ?? [],
          error: answer.problem?.message ?? null,
        } satisfies UpstreamModels;
      },
    ),
  ];
}

/** What can't be a name is as unknown as one that never was. */
function nameOf(params: Readonly<Record<string, string>>): string | ApiError {
  const parsed = UpstreamName.safeParse(params['upstream']);
  return parsed.success ? parsed.data : NOT_FOUND;
}

/** An unusable master key needs an administrator, so the reply describes it. */
function rethrowKeyFileError(error: unknown): never {
  throw error instanceof ConfigError ? new DecisionError('not_allowed', error.message) : error;
}
