import type { Command } from '#db/command-line/command.ts';
import { showTable } from '#db/command-line/table.ts';
import type { Upstream } from '#db/fold/upstream.ts';
import { DIALECTS, type UpstreamTerms } from '#db/events/upstream-events.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import type { ManagementApi } from '#server/cli/remote/management-api.ts';
import type { UpstreamRow } from '#server/contract/upstreams.ts';
import { testCommand } from '#server/cli/upstreams/upstream-test.ts';
import { readUpstreamTerms, type TermsOptions, withTerms } from '#server/cli/upstreams/upstream-options.ts';
import { isChange } from '#server/control/change.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { DIALECT_TRAITS } from '#server/providers/openai/dialects.ts';
import { UpstreamControl } from '#server/control/upstream-control.ts';

/** `daybook upstream …` */
export function upstreamCommands(program: Command): void {
  const upstream = program
    .command('upstream')
    .alias('upstreams')
    .description('upstreams, the model providers that calls are relayed to');

  withServer(withTerms(upstream.command('add').argument('<name>', "the upstream's name")))
    .description('add an upstream; add its credential next with credential add')
    .option(
      '--paused',
      'send no calls to it until upstream resume, so that its credential can be added and tested first',
    )
    .action(
      (name: string, { paused = false, ...options }: TermsOptions & { paused?: boolean }, command: Command) =>
        run(
          command,
          async (session) => {
            const terms = { ...readUpstreamTerms(withAddress({ provider: 'openai', ...options })), paused };
            await controlOf(session).addUpstream(name, terms);
            return { name, terms };
          },
          () =>
            [
              `Upstream "${name}" is added. If it needs a credential, add one with:`,
              `npm run -s daybook -- credential add ${name} --label main`,
            ].join(' '),
          {
            async remote(api) {
              const terms = { ...readUpstreamTerms(withAddress({ provider: 'openai', ...options })), paused };
              await api.post('upstreams', { name, terms });
              return { name, terms };
            },
          },
        ),
    );

  withServer(withTerms(upstream.command('change').argument('<name>', "the upstream's name")))
    .description('change the named fields of an upstream')
    .option('--drop <fields>', 'fields to reset to their defaults, separated by commas: routes,token_limit')
    .action((name: string, { drop, ...options }: TermsOptions & { drop?: string }, command: Command) =>
      run(
        command,
        async (session): Promise<Changed> => {
          let terms: UpstreamTerms | null = null;
          const fields = drop?.split(',').map((each) => each.trim()) ?? [];
          const changed = isChange(
            await controlOf(session).changeUpstream(
              name,
              (before) => (terms = readUpstreamTerms(options, before, fields)),
            ),
          );
          return { name, terms, changed };
        },
        ({ changed }) =>
          changed
            ? `Upstream "${name}" is changed. Running servers use the new terms from the next call on.`
            : `Upstream "${name}" is unchanged.`,
        {
          async remote(api) {
            const fields = drop?.split(',').map((each) => each.trim()) ?? [];
            const before = (await api.list<UpstreamRow>('upstreams')).find((each) => each.name === name);
            const terms = readUpstreamTerms(options, requireRow(before, name).terms, fields);
            return { name, terms, changed: isChange(await api.patch(pathOf(name), { terms })) };
          },
        },
      ),
    );

  for (const [verb, paused, said] of [
    ['pause', true, 'pause an upstream: no calls are sent to it until resume'],
    ['resume', false, 'resume a paused upstream'],
  ] as const) {
    withServer(upstream.command(verb).argument('<name>', "the upstream's name"))
      .description(said)
      .action((name: string, _options: unknown, command: Command) =>
        run(
          command,
          async (session) => ({
            name,
            paused,
            changed: isChange(await controlOf(session).pauseUpstream(name, paused)),
          }),
          ({ changed }) =>
            `Upstream "${name}" is ${paused ? 'paused' : 'in use'}${changed ? '' : ' already'}.`,
          {
            remote: async (api) => ({
              name,
              paused,
              changed: isChange(await api.patch(pathOf(name), { paused })),
            }),
          },
        ),
      );
  }

  testCommand(upstream);

  withServer(upstream.command('remove').argument('<name>', "the upstream's name"))
    .description('remove an upstream and its credentials permanently')
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        async (session) => ({ name, changed: isChange(await controlOf(session).removeUpstream(name)) }),
        () => `Upstream "${name}" is removed, with its credentials.`,
        { remote: async (api) => ({ name, changed: isChange(await api.delete(pathOf(name))) }) },
      ),
    );

  withServer(upstream.command('list'))
    .description('list upstreams, those of the environment included')
    .action((_options: unknown, command: Command) =>
      run(command, listUpstreams, showUpstreams, { remote: upstreamsOf }),
    );
}

/** Adds the base URL of the dialect, if it has one and the options don't. */
function withAddress(options: TermsOptions): TermsOptions {
  const dialect = DIALECTS.find((each) => each === options.dialect);
  const known = dialect === undefined ? null : DIALECT_TRAITS[dialect].baseUrl;
  return options.baseUrl === undefined && known !== null ? { ...options, baseUrl: known } : options;
}

function requireRow(row: UpstreamRow | undefined, name: string): UpstreamRow {
  if (!row) throw new DecisionError('not_found', `There is no upstream named "${name}".`);
  return row;
}

type Changed = { name: string; terms: UpstreamTerms | null; changed: boolean };

const pathOf = (name: string): string => `upstreams/${encodeURIComponent(name)}`;

const controlOf = ({ control, client, config }: Session): UpstreamControl =>
  new UpstreamControl(control, client, config);

type Listed = {
  name: string;
  state: 'in use' | 'paused';
  /**
   * Whether it was added to the log, or is configured by an environment variable and can only be changed
   * there.
   */
  source: 'log' | 'environment';
  credentials: number;
  terms: Pick<UpstreamTerms, 'models'> & {
    [field in keyof UpstreamTerms]?: UpstreamTerms[field] | undefined;
  };
};

async function listUpstreams({ config, control }: Session): Promise<Listed[]> {
  const { directory } = await control.load();
  const configured = config.upstreams.map(({ name, api_key, ...terms }): Listed => ({
    name,
    state: 'in use',
    source: 'environment',
    credentials: api_key === '' ? 0 : 1,
    terms,
  }));
  return [
    ...[...directory.upstreams].filter(({ state }) => state === 'active').map(describe),
    ...configured,
  ].toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

async function upstreamsOf(api: ManagementApi): Promise<Listed[]> {
  const rows = await api.list<UpstreamRow>('upstreams');
  return rows
    .map(({ name, terms, source, credentials }): Listed => ({
      name,
      state: terms.paused ? 'paused' : 'in use',
      source: source === 'log' ? 'log' : 'environment',
      credentials: credentials.filter((each) => each.source !== 'none').length,
      terms,
    }))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

function describe({ name, terms, credentials }: Upstream): Listed {
  return {
    name,
    state: terms.paused ? 'paused' : 'in use',
    source: 'log',
    credentials: credentials.length,
    terms,
  };
}

function showUpstreams(upstreams: Listed[]): string {
  if (upstreams.length === 0)
    return [
      'There are no upstreams yet. Add one with: npm run -s daybook -- upstream add NAME --dialect openai',
      '--base-url https://api.openai.com/v1 --models "gpt-*"',
    ].join(' ');
  return showTable(
    ['NAME', 'STATE', 'SOURCE', 'API', 'ADDRESS', 'CREDENTIALS', 'MODELS'],
    upstreams.map(({ name, state, source, credentials, terms }) => [
      name,
      state,
      source,
      terms.package ?? terms.dialect ?? terms.provider ?? '',
      terms.base_url ?? '-',
      String(credentials),
      terms.models.join(', ') || '-',
    ]),
  );
}
