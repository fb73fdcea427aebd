import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readApplyFile } from '#server/cli/upstreams/apply-file.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { ROOT } from '../../layout/source.ts';

const SECRET = 'sk-canary-credential-7f3a9c51be02';
const UPSTREAM = [
  'upstreams:',
  '  openai:',
  '    provider: openai',
  '    base_url: https://api.example.com/v1/',
  '    models: [gpt-*]',
];

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(path.join(tmpdir(), 'daybook-apply-'));
  writeFileSync(path.join(directory, 'secret'), `${SECRET}\n`);
});
afterAll(() => rmSync(directory, { recursive: true }));

function read(...lines: string[]): ReturnType<typeof readApplyFile> {
  const file = path.join(directory, 'relay.yaml');
  writeFileSync(file, lines.join('\n'));
  return readApplyFile(file, { OPENAI_SECRET: SECRET });
}

describe('a file that declares a relay', () => {
  test('gives terms whole, prices in nano-dollars, and secrets from where it says', () => {
    const { wanted } = read(
      ...UPSTREAM,
      '    credentials:',
      '      - {label: " main ", secret: "${OPENAI_SECRET}"}',
      `      - {label: second, secret: "file:${path.join(directory, 'secret')}"}`,
      'prices: {gpt-4o*: {input: 2.50, output: "10", reasoning: 0.000001}}',
    );
    expect(wanted.upstreams?.get('openai')).toEqual({
      terms: {
        provider: 'openai',
        base_url: 'https://api.example.com/v1',
        models: ['gpt-*'],
        network: 'public',
        on_client_disconnect: 'cancel',
        retries: 0,
        paused: false,
      },
      saysPaused: false,
      credentials: new Map([
        ['main', { secret: SECRET }],
        ['second', { secret: SECRET }],
      ]),
    });
    expect(wanted.prices?.get('gpt-4o*')).toEqual({
      base: { input: 2_500_000_000, output: 10_000_000_000, reasoning: 1_000 },
    });
    expect('models' in wanted).toBe(false);
  });

  test('is as the page about it shows one', () => {
    const [, example] =
      /```yaml\n([^]*?)```/.exec(readFileSync(path.join(ROOT, 'docs/upstreams.md'), 'utf8')) ?? [];
    const { wanted } = read(
      ...(example ?? '').replace('/run/secrets/openai-second', path.join(directory, 'secret')).split('\n'),
    );
    expect([
      ...(wanted.upstreams?.keys() ?? []),
      ...(wanted.models?.keys() ?? []),
      ...(wanted.plans?.keys() ?? []),
      ...(wanted.prices?.keys() ?? []),
    ]).toEqual(['openai', 'ollama', 'fast', 'quick', 'free', 'fast']);
  });

  test('may be empty, or JSON, and says nothing of what it leaves out', () => {
    expect(read('').wanted).toEqual({});
    expect(read('# nothing yet').wanted).toEqual({});
    expect(read('{"models": {"a": {"alias_of": "b"}}}').wanted).toEqual({
      models: new Map([['a', { alias_of: 'b' }]]),
    });
    expect(read(...UPSTREAM).wanted.upstreams?.get('openai')?.credentials).toBeNull();
  });

  test.each<[string, number | null, string, string[]]>([
    [
      'a secret in clear',
      3,
      'must not contain',
      [
        'upstreams:',
        '  one: {provider: openai, base_url: https://x.example/v1, credentials: [{label: main,',
        `    secret: ${SECRET}}]}`,
      ],
    ],
    [
      'a variable that is not set',
      2,
      'variable NOT_THERE is not set',
      [
        'upstreams:',
        '  one: {provider: openai, base_url: https://x.example/v1, credentials: [' +
          '{label: main, secret: "${NOT_THERE}"}]}',
      ],
    ],
    [
      'a file that is not there',
      2,
      "can't be read (ENOENT)",
      [
        'upstreams:',
        '  one: {provider: openai, base_url: https://x.example/v1, credentials: [' +
          '{label: main, secret: "file:/nowhere/at/all"}]}',
      ],
    ],
    ['an unknown section', 2, 'accounts is not a known field', ['models: {}', 'accounts: {}']],
    ['an unknown field', 4, 'retires is not a known field', [...UPSTREAM.slice(0, 3), '    retires: 1']],
    ['a missing field', 2, 'base_url is missing', ['upstreams:', '  one: {provider: openai}']],
    [
      'a field of another kind',
      4,
      'targets[0].weight must be',
      ['models:', '  one:', '    targets:', '    - {upstream: openai, weight: many}'],
    ],
    [
      'an address that nothing is sent to',
      4,
      'metadata',
      ['upstreams:', '  one:', '    provider: openai', '    base_url: http://169.254.169.254/v1'],
    ],
    [
      'a price that is none',
      2,
      'input is not a price',
      ['prices:', '  gpt: {input: 2.50000000001, output: 1}'],
    ],
    [
      'a label that is there twice',
      3,
      'twice',
      [
        'upstreams:',
        '  one: {provider: openai, base_url: https://x.example/v1, credentials: [' +
          '{label: main, secret: "${OPENAI_SECRET}"},',
        '    {label: main, secret: "${OPENAI_SECRET}"}]}',
      ],
    ],
    [
      'a name that is there twice',
      3,
      'duplicate key',
      ['models:', '  one: {alias_of: fast}', '  one: {alias_of: fast}'],
    ],
    ['what is no YAML', 2, 'is not YAML', ['upstreams:', `  one: "${SECRET}`]],
    [
      'what refers to itself without end',
      null,
      'too many aliases',
      [
        'a: &a [x, x, x, x, x, x, x, x, x, x]',
        'b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]',
        'c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]',
        'd: [*c, *c, *c, *c, *c, *c]',
      ],
    ],
    ['what is longer than any', null, 'longer than', ['#'.repeat(1024 * 1024 + 1)]],
  ])('is refused with the line at fault, which is not shown: %s', (_what, line, said, lines) => {
    const refused = ((): unknown => {
      try {
        return read(...lines);
      } catch (error) {
        return error;
      }
    })() as DecisionError;
    expect(refused).toBeInstanceOf(DecisionError);
    if (line !== null) expect(refused.message).toMatch(new RegExp(`^relay\\.yaml:${line}: [^\n]+$`));
    expect(refused.message).toContain(said);
    expect(refused.message).not.toContain(SECRET);
  });
});
