import { expect, test } from 'vitest';
import { explain } from '#server/upstreams/list-models.ts';
import { ForbiddenAddress } from '#server/upstreams/connect.ts';
import { CircuitBreaker } from '#server/upstreams/circuit-breaker.ts';
import { takeAnswer } from '#server/upstreams/health-probe.ts';

/** What people are told of an upstream that could not be asked, and what that says of its health. */

const coded = (code: string, message = 'connect somewhere at 10.0.0.7:8443'): Error =>
  Object.assign(new Error(message), { code });

test.each([
  ['a place that is not allowed', new ForbiddenAddress('private'), /private network/],
  ['nobody there', coded('ECONNREFUSED'), /Nothing listens/],
  ['a name that is none', coded('ENOTFOUND'), /no host of its name/],
  ['a certificate that is over', coded('CERT_HAS_EXPIRED'), /certificate .* expired/],
  ['one of its own making', coded('DEPTH_ZERO_SELF_SIGNED_CERT'), /certificate/],
  ['no TLS where some was meant', coded('ERR_SSL_WRONG_VERSION_NUMBER'), /http:\/\//],
  ['TLS where none was meant', coded('HPE_INVALID_CONSTANT'), /no HTTP/],
  ['a connection that breaks', coded('UND_ERR_SOCKET'), /broke the connection/],
  ['silence', Object.assign(new Error('late'), { name: 'TimeoutError' }), /within 3 s/],
  ['a page instead of an API', new SyntaxError('Unexpected token <'), /not JSON/],
  ['another API', new Error('its list of models is none'), /no list of models/],
  ['a bad credential', new Error('the upstream answered 401'), /refuses the credential \(401\)/],
  ['a redirect', new Error('the upstream answered 302'), /redirects are never followed/],
  ['whatever else', coded('EWHATEVER'), /could not be asked \(EWHATEVER\)/],
  ['what is no error at all', undefined, /could not be asked/],
])('%s is told in one line that says what to do and names no address', (_what, error, line) => {
  const problem = explain(error, 3_000);
  expect(problem.line).toMatch(line);
  expect(problem.line).not.toMatch(/10\.0\.0\.7|\n/);
  expect(problem.isUnsure).toBe(false);
});

test.each([403, 404])('a list that is not given (%i) does not speak against calls', (status) => {
  expect(explain(new Error(`the upstream answered ${status}`), 3_000).isUnsure).toBe(true);
});

const MODELS = { models: ['a'], problem: null };
const answered = (error: unknown) => ({ models: null, problem: explain(error, 3_000) });
/** One that was ejected for this, and whose time out is over at 100. */
function ejectedFor(problem: string): CircuitBreaker {
  const health = new CircuitBreaker();
  health.failed(1, 2, problem, 50);
  return health;
}

test.each([
  ['unreachable', MODELS, 'good'],
  ['status_401', MODELS, 'good'],
  ['status_503', MODELS, 'good'],
  // A list says nothing of money, of a limit, or of how replies come.
  ['status_402', MODELS, 'on_trial'],
  ['status_429', MODELS, 'on_trial'],
  ['timed_out', MODELS, 'on_trial'],
  ['unreachable', answered(coded('ECONNREFUSED')), 'ejected'],
  ['status_503', answered(coded('ECONNREFUSED')), 'ejected'],
  ['status_401', answered(new Error('the upstream answered 401')), 'ejected'],
  // Whoever refuses to be asked is there, at least.
  ['unreachable', answered(new Error('the upstream answered 403')), 'good'],
  ['status_500', answered(new Error('the upstream answered 401')), 'on_trial'],
  ['status_503', answered(new Error('the upstream answered 404')), 'on_trial'],
  ['timed_out', answered(Object.assign(new Error('late'), { name: 'TimeoutError' })), 'on_trial'],
])(
  'what was ejected as %s, asked for its models, comes back only by what that disproves',
  (seen, answer, state) => {
    const health = ejectedFor(seen);
    expect(health.standing(100).state).toBe('on_trial');
    takeAnswer(health, answer, 100, 101);
    expect(health.standing(102).state).toBe(state);
  },
);
