import { sql } from 'kysely';
import type { Client } from 'pg';
import { type Command, FoundFault } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { unknownVariableLine, unknownVariables } from '#db/configuration/names.ts';
import { readWorkerConfig } from '#db/configuration/worker-config.ts';
import { closeClient, StoreError } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
import { db, onlyRowOf } from '#db/schema/query.ts';
import { borrowStore, connectRelay } from '#db/postgres/store.ts';
import { checkCheckpoints } from '#server/cli/doctor/doctor-checkpoints.ts';
import { checkAttribution, checkCredentials } from '#server/cli/doctor/doctor-credentials.ts';
import { checkEvents } from '#server/cli/doctor/doctor-events.ts';
import { checkJobs, checkOutput, checkProjections } from '#server/cli/doctor/doctor-service.ts';
import { checkSinks } from '#server/cli/doctor/doctor-sinks.ts';
import type { Finding } from '#server/cli/doctor/finding.ts';
import { type Config, describeConfig, readConfig } from '#server/process/config.ts';

/** `daybook doctor`: prints the configuration with secrets masked, and checks the components. */
export function doctorCommand(program: Command): void {
  withJson(program.command('doctor'))
    .description(
      'print the configuration with secrets masked, and check the database, the log and the upstreams',
    )
    .action(async (_options: unknown, command: Command) => {
      const config = readConfig(command.surroundings.env);
      const checked = [
        ...checkEnvironment(command.surroundings.env),
        ...(await checkStore(config)),
        ...(await Promise.all(config.upstreams.map(checkUpstream))),
      ];
      // Problems first.
      const findings = checked.toSorted((one, other) => Number(one.ok) - Number(other.ok));
      print(command, { node: process.version, findings, configuration: describeConfig(config) }, show);
      if (findings.some(({ ok }) => !ok)) throw new FoundFault();
    });
}

/** Checks the worker's variables, and names variables that nothing reads. The server's have been read. */
function checkEnvironment(environment: NodeJS.ProcessEnv): Finding[] {
  const check = 'environment';
  const unknown = unknownVariables(environment).map(unknownVariableLine);
  if (unknown.length > 0) return [{ check, ok: false, detail: unknown.join('; ') }];
  try {
    readWorkerConfig(environment);
    return [];
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return [{ check, ok: false, detail: error.message }];
  }
}

async function checkStore(config: Config): Promise<Finding[]> {
  const check = config.DATABASE_URL === undefined ? 'embedded PostgreSQL' : 'PostgreSQL at DATABASE_URL';
  try {
    const { store, close } = await borrowStore(config, () => {});
    try {
      const client = await connectRelay(store);
      const findings = [
        { check, ok: true, detail: await describeLog(client) },
        await checkEvents(client),
        await checkProjections(client),
        await checkJobs(client),
        await checkOutput(client),
        ...(await checkSinks(client)),
        await checkCheckpoints(client, config),
        await checkCredentials(client, config),
        await checkAttribution(client, config),
      ];
      await closeClient(client);
      return findings;
    } finally {
      await close();
    }
  } catch (error) {
    return [{ check, ok: false, detail: (error as Error).message }];
  }
}

async function describeLog(client: Client): Promise<string> {
  const query = db.selectNoFrom(({ selectFrom }) => [
    sql<string>`current_setting('server_version')`.as('version'),
    sql<string>`daybook.head(${SHARD})`.as('head'),
    selectFrom('daybook.instance')
      .select(({ fn }) => fn.countAll<string>().as('count'))
      .where('dead_at', 'is', null)
      .where('name', 'like', 'server %')
      .as('live'),
  ]);
  const { version, head, live } = await onlyRowOf(client, query);
  return `version ${version}, ${head} events in the log, ${live} server(s) running`;
}

const PROBE_TIMEOUT_MS = 5_000;

async function checkUpstream(upstream: Config['upstreams'][number]): Promise<Finding> {
  const check = `upstream ${upstream.name}`;
  try {
    const reply = await fetch(`${upstream.base_url}/models`, {
      headers: upstream.api_key === '' ? {} : { authorization: `Bearer ${upstream.api_key}` },
      redirect: 'manual',
      signal: AbortSignal.timeout(PROBE_TIMEOUT_MS),
    });
    await reply.body?.cancel();
    const refused = reply.status === 401 || reply.status === 403;
    return {
      check,
      ok: !refused,
      detail: refused ? `rejects its api_key (${reply.status})` : `responds (${reply.status})`,
    };
  } catch (error) {
    const cause = (error as Error).cause as NodeJS.ErrnoException | undefined;
    return { check, ok: false, detail: `does not respond (${cause?.code ?? (error as Error).name})` };
  }
}

function show({
  node,
  configuration,
  findings,
}: {
  node: string;
  configuration: Record<string, unknown>;
  findings: Finding[];
}): string {
  const settings = Object.entries(configuration).map(
    ([name, value]) => `  ${name.padEnd(32)} ${showValue(value)}`,
  );
  const checks = findings.map(({ check, ok, detail }) => `  ${ok ? 'ok  ' : 'FAIL'} ${check}: ${detail}`);
  return ['Checks', ...checks, 'Configuration', ...settings, `Node ${node}`].join('\n');
}

function showValue(value: unknown): string {
  if (value === null) return '(not set)';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
