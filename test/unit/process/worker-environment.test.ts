import { expect, it } from 'vitest';
import { workerEnvironment } from '#server/process/worker-environment.ts';
import { describeWorkerConfig, readWorkerConfig } from '#db/configuration/worker-config.ts';

it('the worker beside a server gets every variable that it reads, and no secret of the server', () => {
  const read = Object.keys(describeWorkerConfig(readWorkerConfig({})));
  const system = ['PATH', 'HOME', 'TZ', 'NODE_EXTRA_CA_CERTS', 'PGPASSFILE', 'PGSSLROOTCERT'];
  const secrets = [
    'DAYBOOK_UPSTREAMS',
    'DAYBOOK_UPSTREAMS_FILE',
    'OPENAI_API_KEY',
    'ADMIN_PASSWORD',
    'DAYBOOK_MASTER_KEY_FILE',
    'READYZ_TOKEN',
    'AWS_SECRET_ACCESS_KEY',
    'GITHUB_TOKEN',
  ];
  const all = Object.fromEntries([...read, ...system, ...secrets].map((name) => [name, 'set']));
  expect(Object.keys(workerEnvironment(all))).toEqual([...read, ...system]);
  expect(workerEnvironment({ DATABASE_URL_FILE: '/run/secrets/url' })).toEqual({
    DATABASE_URL_FILE: '/run/secrets/url',
  });
});
