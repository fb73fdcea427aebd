import { expect, test } from 'vitest';
import { explainModelListError } from '#server/upstreams/list-models.ts';
import { ModelListError } from '#server/upstreams/model-list-error.ts';
import { ForbiddenAddress } from '#server/upstreams/connect.ts';
import { CircuitBreaker } from '#server/upstreams/circuit-breaker.ts';
import { applyProbeResult } from '#server/upstreams/health-probe.ts';

/** What people are told of an upstream that could not be reached, and what that says of its health. */

const coded = (code: string, message = 'connect somewhere at 10.0.0.7:8443'): Error =>
  Object.assign(new Error(message), { code });

const replied = (status: number): Error => new ModelListError({ kind: 'status', status });

test.each([
  ['an address that is not allowed', new ForbiddenAddress('private'), /private network/],
  ['a closed port', coded('ECONNREFUSED'), /no server listens/],
  ['an unknown host name', coded('ENOTFOUND'), /host name does not exist/],
  ['an expired certificate', coded('CERT_HAS_EXPIRED'), /certificate .* expired/],
  ['a self-signed certificate', coded('DEPTH_ZERO_SELF_SIGNED_CERT'), /certificate/],
  ['no TLS where some was meant', coded('ERR_SSL_WRONG_VERSION_NUMBER'), /http:\/\//],
  ['TLS where none was meant', coded('HPE_INVALID_CONSTANT'), /does not use HTTP/],
  ['a connection that breaks', coded('UND_ERR_SOCKET'), /closed the connection/],
  ['a timeout', Object.assign(new Error('late'), { name: 'TimeoutError' }), /within 3 s/],
  ['a page instead of an API', new ModelListError({ kind: 'not_json' }), /not JSON/],
  ['another API', new ModelListError({ kind: 'not_a_list' }), /not a list of models/],
  ['an invalid credential', replied(401), /rejects the credential \(401\)/],
  ['a redirect', replied(302), /redirects are never followed/],
  ['any other error', coded('EWHATEVER'), /could not be reached \(EWHATEVER\)/],
  ['a value that is no error', undefined, /could not be reached/],
])('explains %s in one line without an address', (_what, error, message) => {
  const problem = explainModelListError(error, 3_000);
  expect(problem.message).toMatch(message);
  expect(problem.message).not.toMatch(/10\.0\.0\.7|\n/);
  expect(problem.isUnsure).toBe(false);
});

test.each([403, 404])('treats status %i for the list of models as no evidence about calls', (status) => {
  expect(explainModelListError(replied(status), 3_000).isUnsure).toBe(true);
});

const MODELS = { models: ['a'], problem: null };
const answered = (error: unknown) => ({ models: null, problem: explainModelListError(error, 3_000) });
/** A circuit that this problem opened, half-open at 100. */
function openedBy(problem: string): CircuitBreaker {
  const circuit = new CircuitBreaker();
  circuit.failed(1, 2, problem, 50);
  return circuit;
}

test.each([
  ['unreachable', MODELS, 'healthy'],
  ['status_401', MODELS, 'healthy'],
  ['status_503', MODELS, 'healthy'],
  // A list says nothing about money, limits or replies.
  ['status_402', MODELS, 'half_open'],
  ['status_429', MODELS, 'half_open'],
  ['timed_out', MODELS, 'half_open'],
  ['unreachable', answered(coded('ECONNREFUSED')), 'open'],
  ['status_503', answered(coded('ECONNREFUSED')), 'open'],
  ['status_401', answered(replied(401)), 'open'],
  // An upstream that rejects the request is reachable.
  ['unreachable', answered(replied(403)), 'healthy'],
  ['status_500', answered(replied(401)), 'half_open'],
  ['status_503', answered(replied(404)), 'half_open'],
  ['timed_out', answered(Object.assign(new Error('late'), { name: 'TimeoutError' })), 'half_open'],
])('a circuit opened by %s closes only by a probe that disproves it', (seen, answer, state) => {
  const circuit = openedBy(seen);
  expect(circuit.status(100).state).toBe('half_open');
  applyProbeResult(circuit, answer, 100, 101);
  expect(circuit.status(102).state).toBe(state);
});
