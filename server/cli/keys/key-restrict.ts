import { Option } from 'commander';
import type { z } from 'zod';
import { collect, type Command } from '#db/command-line/command.ts';
import { KeyTerms, Reads } from '#db/events/events.ts';
import { run } from '#server/cli/control-session.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import type { KeyRow } from '#server/contract/keys.ts';
import { checkTerms, readTerms, windowsOption } from '#server/cli/accounts/terms-file.ts';
import { isChange } from '#server/control/change.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { restrictedTerms, type Restriction } from '#server/decide/key.ts';
import type { WindowsChoice } from '#server/decide/plan.ts';

export type RestrictOptions = {
  models?: string;
  routes?: string;
  origins?: string;
  networks?: string;
  requestsPerMinute?: string;
  tokensPerMinute?: string;
  concurrent?: string;
  quota?: string[];
  reads?: z.infer<typeof Reads>;
  attribution?: string[];
  file?: string;
  expires?: string;
  clear?: true;
  window: WindowsChoice;
};

/** The value of an option that removes its restriction. */
const ANY = 'any';
const NEVER = 'never';

/** `daybook key restrict …` */
export function restrictCommand(key: Command): void {
  withServer(key.command('restrict').argument('<id>', "the key's id"))
    .description(`restrict a key within the terms of its account; the value "${ANY}" removes a restriction`)
    .option('--models <list>', 'allowed models, names and patterns separated by commas: gpt-4o,claude-*')
    .option('--routes <list>', 'allowed routes, separated by commas, such as /v1/chat/completions')
    .option(
      '--origins <list>',
      'allowed web origins: https://*.example.com for all subdomains, none for requests without an Origin ' +
        'header',
    )
    .option('--networks <list>', 'allowed client addresses and networks, such as 10.0.0.0/8')
    .option('--expires <time>', `when the key expires, as ISO 8601, or ${NEVER}`)
    .option('--requests-per-minute <n>', 'maximum requests per minute')
    .option('--tokens-per-minute <n>', 'maximum tokens per minute')
    .option('--concurrent <n>', 'maximum concurrent requests')
    .option(
      '--quota <quota>',
      'a quota such as tokens/day=100000 or requests/hour=50:hard; repeatable, replaces all quotas of the ' +
        'key',
      collect,
    )
    .addOption(
      new Option(
        '--reads <whose>',
        'the requests and usage that the key can read: its own (default) or those of the account',
      ).choices(Reads.options),
    )
    .option(
      '--attribution <terms>',
      'end_user=required, session=required or tags=required: reject requests without; or a fixed value for ' +
        'all requests, such as end_user=fixed:app or tags=fixed:web,eu; repeatable, replaces all of the key',
      collect,
    )
    .option(
      '--file <terms.json>',
      'a JSON file with these fields, in the format of a plan; options override it',
    )
    .option('--clear', 'remove all restrictions that the key had before')
    .addOption(windowsOption('--window'))
    .action((id: string, options: RestrictOptions, command: Command) =>
      run(
        command,
        async ({ control }) => {
          const changed = isChange(await control.restrictKey(id, readRestriction(options)));
          const { key: now } = await control.loadKey(id);
          return { id, terms: now.terms ?? {}, expires_at: now.expiresAt?.toISOString() ?? null, changed };
        },
        ({ terms, expires_at, changed }) => {
          const fields = Object.entries(terms).map(([name, value]) => `  ${name}: ${JSON.stringify(value)}`);
          const state =
            fields.length === 0
              ? `Key ${id} is not restricted beyond its account`
              : `Key ${id} is restricted`;
          return [
            `${state}${changed ? '' : ', as before'}; it expires ${expires_at ?? NEVER}.`,
            ...fields,
          ].join('\n');
        },
        {
          async remote(api) {
            const path = `keys/${encodeURIComponent(id)}`;
            const restriction = readRestriction(options);
            const before = await api.get<KeyRow>(path);
            const change = await api.patch(path, {
              terms: restrictedTerms(before.terms, restriction),
              expires_at: restriction.expiresAt,
              windows: restriction.windows,
            });
            const now = await api.get<KeyRow>(path);
            return { id, terms: now.terms ?? {}, expires_at: now.expires_at, changed: isChange(change) };
          },
        },
      ),
    );
}

/** Parses the options. @throws {DecisionError} with one line that names the option. */
export function readRestriction(options: RestrictOptions): Restriction {
  const set: KeyTerms = options.file === undefined ? {} : readTerms(KeyTerms, options.file);
  const drop: (keyof KeyTerms)[] = [];
  /** @param read parses the option's text into the value of the field in a file. */
  const take = (
    option: string,
    field: keyof KeyTerms,
    text: string | undefined,
    read: (text: string) => unknown,
  ): void => {
    if (text === undefined) return;
    if (text === ANY) {
      drop.push(field);
      return;
    }
    Object.assign(set, checkTerms(KeyTerms, { [field]: read(text) }, `${option}: `));
  };
  take('--models', 'models', options.models, readList);
  take('--routes', 'routes', options.routes, readList);
  take('--origins', 'origins', options.origins, readList);
  take('--networks', 'networks', options.networks, readList);
  take('--requests-per-minute', 'requests_per_minute', options.requestsPerMinute, readNumber);
  take('--tokens-per-minute', 'tokens_per_minute', options.tokensPerMinute, readNumber);
  take('--concurrent', 'concurrent_requests', options.concurrent, readNumber);
  take('--quota', 'quotas', options.quota?.join(','), (text) => readList(text).map(readQuota));
  if (options.attribution?.length === 1 && options.attribution[0] === ANY) drop.push('attribution');
  else if (options.attribution !== undefined) {
    const attribution = Object.fromEntries(options.attribution.map(readAttribution));
    Object.assign(set, checkTerms(KeyTerms, { attribution }, '--attribution: '));
  }
  // A key without the field reads only its own requests.
  if (options.reads === 'key') drop.push('reads');
  else if (options.reads !== undefined) set.reads = options.reads;
  return {
    set,
    drop,
    clear: options.clear === true,
    expiresAt: readExpiry(options.expires),
    windows: options.window,
  };
}

function readExpiry(text: string | undefined): Date | null | undefined {
  if (text === undefined) return undefined;
  return text === NEVER ? null : parseTime(text);
}

const readList = (text: string): string[] => text.split(',').map((each) => each.trim());

/** Returns the text if it is not a number, so that the check of the terms reports it. */
const readNumber = (text: string): number | string => (/^\d{1,16}$/.test(text) ? Number(text) : text);

function readAttribution(text: string): [field: string, value: unknown] {
  const [, field = '', isRequired, fixed = ''] =
    /^(end_user|session|tags)=(?:(required)|fixed:(.+))$/s.exec(text) ?? [];
  if (field === '')
    throw new DecisionError(
      'invalid',
      `--attribution: "${text}" is not such as end_user=required or tags=fixed:web,eu.`,
    );
  if (isRequired !== undefined) return [field, isRequired];
  return [field, { fixed: field === 'tags' ? readList(fixed) : fixed }];
}

function readQuota(text: string): object {
  const match = /^(\w+)\/(\w+)=(\d{1,16})(?::(\w+))?$/.exec(text);
  if (!match)
    throw new DecisionError(
      'invalid',
      `--quota: "${text}" is not a quota such as tokens/day=100000 or requests/hour=50:hard.`,
    );
  const [, meter, window, limit, enforcement] = match;
  return { meter, window, limit: Number(limit), ...(enforcement === undefined ? {} : { enforcement }) };
}

/** @throws {DecisionError} when the text is not a time. */
export function parseTime(text: string): Date {
  const time = new Date(text);
  if (!/^\d{4}-\d\d-\d\d/.test(text) || Number.isNaN(time.getTime())) {
    throw new DecisionError('invalid', `"${text}" is not a time such as 2027-01-31T00:00:00Z.`);
  }
  return time;
}
