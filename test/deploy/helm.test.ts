import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { describeConfig, readConfig } from '#server/process/config.ts';
import { describeWorkerConfig, readWorkerConfig } from '#db/configuration/worker-config.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { ROOT } from '../layout/source.ts';

/**
 * The Helm chart, rendered by helm and checked against the schemas of Kubernetes by kubernetes-validate.
 * Skipped where these are not installed.
 */

const CHART = path.join(ROOT, 'deploy/helm/daybook');
const hasProgram = (name: string, ...args: string[]): boolean => spawnSync(name, args).status === 0;
const HAS_HELM = hasProgram('helm', 'version');
const HAS_SCHEMAS = hasProgram('kubernetes-validate', '--version');
/** The oldest version of Kubernetes that Chart.yaml names, and a new one. */
const KUBERNETES = ['1.28', '1.34'];

type Container = {
  name: string;
  args?: string[];
  env?: { name: string; value: string }[];
  securityContext: Record<string, unknown>;
  volumeMounts: { name: string; mountPath: string; readOnly?: boolean }[];
};
type PodSpec = {
  securityContext: Record<string, unknown>;
  automountServiceAccountToken: boolean;
  terminationGracePeriodSeconds?: number;
  initContainers: Container[];
  containers: Container[];
  volumes: { name: string; secret?: { items: { key: string }[] } }[];
};
type Resource = {
  kind: string;
  metadata: { name: string; annotations?: Record<string, string> };
  spec: { template?: { spec: PodSpec }; replicas?: number };
};

let directory: string;
beforeAll(async () => {
  directory = await makeTestDirectory();
});
afterAll(() => removeTestDirectory(directory));

function render(...sets: string[]): { text: string; resources: Resource[] } {
  const args = ['template', 'relay', CHART, '--namespace', 'llm', '--kube-version', `${KUBERNETES[1]}.0`];
  // Settings are texts.
  args.push('--set-string', 'server.settings.MAX_BODY_MB=64');
  const { status, stdout, stderr } = spawnSync(
    'helm',
    [...args, ...sets.flatMap((each) => ['--set', each])],
    {
      encoding: 'utf8',
      env: { ...process.env, HOME: directory },
    },
  );
  expect([status, stderr]).toEqual([0, '']);
  const resources = parseAllDocuments(stdout)
    .map((document) => document.toJS() as Resource | null)
    .filter((each) => each !== null);
  return { text: stdout, resources };
}

const EVERYTHING = [
  'ingress.enabled=true',
  'ingress.tlsSecret=daybook-tls',
  'ingress.className=nginx',
  'metrics.enabled=true',
  'published.existingClaim=checkpoints',
  'server.trustedProxies={10.0.0.0/8}',
  'imagePullSecrets[0].name=registry',
];

const podsOf = (resources: readonly Resource[]): [kind: string, spec: PodSpec][] =>
  resources.flatMap(({ kind, spec }) =>
    spec.template ? [[kind, spec.template.spec] as [string, PodSpec]] : [],
  );

describe('deploy/helm/daybook', () => {
  test('has the version of the package', () => {
    const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
      version: string;
    };
    const chart = readFileSync(path.join(CHART, 'Chart.yaml'), 'utf8');
    expect(chart).toContain(`\nversion: ${version}\n`);
    expect(chart).toContain(`\nappVersion: ${version}\n`);
  });

  test('sets only variables that exist', () => {
    const known = new Set(
      Object.keys({ ...describeConfig(readConfig({})), ...describeWorkerConfig(readWorkerConfig({})) }),
    );
    const templates = readdirSync(path.join(CHART, 'templates'));
    const text = templates
      .map((name) => readFileSync(path.join(CHART, 'templates', name), 'utf8'))
      .join('\n');
    const set = [...text.matchAll(/name: ([A-Z][A-Z_]+)/g)].map(([, name = '']) => name);
    expect(set.length).toBeGreaterThan(10);
    const secret = ['DATABASE_URL', 'SERVICE_DATABASE_URL', 'DAYBOOK_UPSTREAMS'];
    expect(set.filter((name) => !known.has(name) && !secret.includes(name.replace(/_FILE$/, '')))).toEqual(
      [],
    );
  });

  test.skipIf(!HAS_HELM)('has no fault that helm lint finds', () => {
    const { status, stdout } = spawnSync('helm', ['lint', '--strict', CHART], {
      encoding: 'utf8',
      env: { ...process.env, HOME: directory },
    });
    expect([status, stdout]).toEqual([0, expect.stringContaining('0 chart(s) failed') as string]);
    // The schema of the values rejects a misspelled one.
    expect(spawnSync('helm', ['lint', '--set', 'server.replica=3', CHART]).status).toBe(1);
  });

  test.skipIf(!HAS_HELM)('runs each program without rights, on a read-only file system', () => {
    const pods = podsOf(render(...EVERYTHING).resources);
    expect(pods.map(([kind]) => kind).toSorted()).toEqual(['Deployment', 'Deployment', 'Job']);
    for (const [, spec] of pods) {
      expect(spec.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 });
      expect(spec.automountServiceAccountToken).toBe(false);
      for (const container of [...spec.initContainers, ...spec.containers])
        expect(container.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
    }
  });

  test.skipIf(!HAS_HELM)('gives each program its own secrets alone, and no secret in a variable', () => {
    const secrets = podsOf(render().resources).map(([, { containers, volumes }]) => [
      containers[0]?.args?.[0],
      volumes.flatMap(({ secret }) => secret?.items.map(({ key }) => key) ?? []),
    ]);
    expect(Object.fromEntries(secrets)).toEqual({
      migrate: ['owner_url', 'service_url'],
      start: ['service_url', 'pepper', 'master_key', 'upstreams'],
      worker: ['service_url', 'pepper', 'signing_key'],
    });
    expect(render(...EVERYTHING).text).not.toMatch(/secretKeyRef|envFrom/);
  });

  test.skipIf(!HAS_HELM)('passes settings, and migrates before servers are replaced', () => {
    const { resources } = render(...EVERYTHING);
    const server = podsOf(resources).find(([, { containers }]) => containers[0]?.args?.[0] === 'start');
    expect(server?.[1].containers[0]?.env).toEqual(
      expect.arrayContaining([
        { name: 'MAX_BODY_MB', value: '64' },
        { name: 'TRUSTED_PROXIES', value: '10.0.0.0/8' },
        { name: 'METRICS_PORT', value: '9464' },
      ]),
    );
    const job = resources.find(({ kind }) => kind === 'Job');
    expect(job?.metadata.annotations?.['helm.sh/hook']).toBe('pre-install,pre-upgrade');
  });

  test.skipIf(!HAS_HELM || !HAS_SCHEMAS)('is valid by the schemas of Kubernetes', () => {
    for (const [index, sets] of [[], EVERYTHING].entries()) {
      const file = path.join(directory, `chart-${index}.yaml`);
      writeFileSync(file, render(...sets).text);
      for (const version of KUBERNETES) {
        const check = (name: string) =>
          spawnSync('kubernetes-validate', ['--strict', '-k', version, name], { encoding: 'utf8' });
        const { status, stdout, stderr } = check(file);
        expect([status, stdout + stderr]).toEqual([0, expect.not.stringContaining('ERROR') as string]);
        const broken = path.join(directory, 'broken.yaml');
        writeFileSync(broken, render(...sets).text.replace('containerPort: 4000', 'containerPort: http'));
        expect(check(broken).status).not.toBe(0);
      }
    }
  });
});
