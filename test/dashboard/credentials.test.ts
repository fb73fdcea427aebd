import { afterAll, beforeAll, expect, test } from 'vitest';
import type {
  CreatedCredential,
  CredentialTestResult,
  UpstreamTestResult,
} from '#server/contract/upstreams.ts';
import { chat } from '../support/client.ts';
import { setUp, type SignedInClient } from '../support/dashboard.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Credentials by the dashboard's routes: what is answered is how this server stands then. */

const SECRET = 'sk-first-5f1c7d9e2b8a4036';

let upstream: ScriptedUpstream;
let relay: TestRelay;
let administrator: SignedInClient;

beforeAll(async () => {
  upstream = await startUpstream({ apiKey: SECRET });
  upstream.script('m', 'tokens=2');
  relay = await startRelay();
  administrator = await setUp(relay);
  const terms = { provider: 'openai', base_url: upstream.baseUrl, network: 'private', models: ['m'] };
  expect((await administrator.post('/api/v1/upstreams', { name: 'first', terms })).status).toBe(200);
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

async function add(label: string, secret: string): Promise<string> {
  const { status, body } = await administrator.post<CreatedCredential>(
    '/api/v1/upstreams/first/credentials',
    {
      label,
      secret,
    },
  );
  expect(status).toBe(200);
  return body.id;
}
const remove = async (id: string): Promise<number> =>
  (await administrator.delete(`/api/v1/upstreams/first/credentials/${id}`)).status;
const tested = async (): Promise<Pick<CredentialTestResult, 'label' | 'outcome' | 'error'>[]> =>
  (await administrator.post<UpstreamTestResult>('/api/v1/upstreams/first/test', {})).body.data.map(
    ({ label, outcome, error }) => ({ label, outcome, error }),
  );
const call = async (): Promise<number | null> =>
  (await chat({ port: relay.port, key: relay.key, body: { model: 'm', messages: [] } })).status;

test('a credential that was just added is the one that is tested, and that calls go out with', async () => {
  for (let turn = 0; turn < 5; turn++) {
    const wrong = await add('wrong', 'sk-wrong-0a1b2c3d4e5f6789');
    expect(await tested()).toEqual([
      { label: 'wrong', outcome: 'invalid', error: 'It rejects the credential (401).' },
    ]);
    expect(await remove(wrong)).toBe(200);
    const right = await add('right', SECRET);
    expect(await call()).toBe(200);
    expect(await tested()).toEqual([{ label: 'right', outcome: 'valid', error: null }]);
    expect(await remove(right)).toBe(200);
    expect(await call()).toBe(502);
  }
});
