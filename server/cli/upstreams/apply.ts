import { CommanderError } from 'commander';
import { userInfo } from 'node:os';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { readCredentials } from '#db/secrets/credentials.ts';
import { matchesSecret } from '#db/secrets/envelope.ts';
import { publicId } from '#db/ids.ts';
import { ConflictError } from '#db/log/append.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { type AppliedFile, readApplyFile } from '#server/cli/upstreams/apply-file.ts';
import { confirm } from '#server/cli/input.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { type ApplyPlan, type Difference, type FieldChange, planApply } from '#server/decide/apply.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import { reachable, UpstreamControl } from '#server/control/upstream-control.ts';

/** Events in one atomic append, which locks the log for a time that calls don't notice. */
const CHANGES_MAX = 1_000;
/** The exit code of a dry run that found differences. */
const DIFFERENT = 2;
const VALUE_CHARACTERS_MAX = 200;

type Options = { yes?: true; dryRun?: true; prune?: true };
type Applied = {
  outcome: 'nothing to do' | 'would change' | 'applied' | 'left';
  differences: Difference[];
  position: number | null;
};

/** Ends a dry run that found differences. */
class WouldChange extends CommanderError {
  constructor() {
    super(DIFFERENT, 'daybook.would_change', '');
  }
}

/** `daybook apply …` */
export function applyCommand(program: Command): void {
  withJson(program.command('apply').argument('<config.yaml>', 'the file that declares them'))
    .description(
      'apply upstreams, models, plans and prices that a file declares: shows the differences, and asks',
    )
    .option('--yes', 'apply without asking')
    .option('--dry-run', `only show the differences; exits with ${DIFFERENT} if there are any`)
    .option(
      '--prune',
      'also remove upstreams, models and credentials that the sections of the file do not name',
    )
    .action(async (file: string, options: Options, command: Command) => {
      const declared = readApplyFile(file, command.surroundings.env);
      const actor = actorOf();
      let wouldChange = false;
      const isAsked = options.yes !== true;
      await run(
        command,
        async (session) => {
          const applied = await apply(command, session, declared, options);
          wouldChange = applied.outcome === 'would change';
          return applied;
        },
        // The user who confirmed has seen the differences.
        (applied) => show(applied, isAsked),
        actor,
      );
      if (wouldChange) throw new WouldChange();
    });
}

/** The actor: the user of the operating system, in the characters that an actor may have. */
function actorOf(): string {
  let name = 'unknown';
  try {
    name = userInfo().username;
  } catch {
    // A container's user may have no name.
  }
  return `apply/${name.replaceAll(/[^A-Za-z0-9._-]/g, '-').slice(0, 64)}`;
}

async function apply(
  command: Command,
  session: Session,
  declared: AppliedFile,
  { yes, dryRun, prune }: Options,
): Promise<Applied> {
  const { control, client, config } = session;
  const plan = await makePlan(session, declared, prune === true);
  const { differences, appends, seal, remove } = plan;
  if (differences.length === 0) return { outcome: 'nothing to do', differences, position: null };
  if (appends.length > CHANGES_MAX)
    throw new DecisionError(
      'not_allowed',
      `The file makes ${appends.length} changes; the maximum is ${CHANGES_MAX}. Apply one part first.`,
    );
  if (dryRun === true) return { outcome: 'would change', differences, position: null };
  if (yes !== true) {
    command.surroundings.err(`${showDifferences(differences)}\n`);
    if (!(await confirm(command, 'Make these changes?')))
      return { outcome: 'left', differences: [], position: null };
  }
  try {
    const position = await new UpstreamControl(control, client, config).commit({ appends, seal, remove });
    return { outcome: 'applied', differences, position };
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    throw new DecisionError(
      'not_allowed',
      'The state changed meanwhile, so nothing was applied. Run the command again and check the differences.',
    );
  }
}

async function makePlan(
  { control, client, config }: Session,
  { wanted, placeOf }: AppliedFile,
  prune: boolean,
): Promise<ApplyPlan> {
  const model = await control.load();
  const keys = readKeys(masterKeyFile(config));
  const sealed = new Map((await readCredentials(client)).map((each) => [each.id, each]));
  const ground = {
    upstreams: model.directory.upstreams,
    models: model.directory.models,
    plan: (name: string) => model.plan(name),
    price: (pattern: string) => model.prices.get(pattern),
    configured: new Set(config.upstreams.map(({ name }) => name)),
    isListed: (name: string, upstreams: Parameters<typeof reachable>[0]['upstreams']) =>
      reachable({ upstreams, models: [] }, config).isListed(name),
    isSecret(id: string, secret: string): boolean | null {
      const credential = sealed.get(id);
      if (!credential || !keys) return null;
      try {
        return matchesSecret(keys, credential, credential, secret);
      } catch {
        return null;
      }
    },
    newId: publicId,
  };
  return planApply(ground, wanted, { prune, actor: control.actor, placeOf });
}

function show({ outcome, differences, position }: Applied, isSeen: boolean): string {
  if (outcome === 'nothing to do') return 'Nothing to do: the current state matches the file.';
  if (outcome === 'left') return 'Nothing was changed.';
  const shown = showDifferences(differences);
  const done = `Applied, up to position ${position} of the log.`;
  if (outcome === 'would change') return shown;
  return isSeen ? done : `${shown}\n${done}`;
}

const SUBJECTS = { upstreams: 'upstream', models: 'model', plans: 'plan', prices: 'price' };
const SIGNS = { added: '+', changed: '~', removed: '-' };

/** One line for each object, followed by one line for each field. */
function showDifferences(differences: readonly Difference[]): string {
  return differences
    .flatMap(({ section, name, change, fields }) => [
      `${SIGNS[change]} ${SUBJECTS[section]} "${name}"`,
      ...fields.map(showField),
    ])
    .join('\n');
}

function showField(change: FieldChange): string {
  const { field, before, after } = change;
  if (!('before' in change)) return `    + ${field}: ${showValue(after)}`;
  if (!('after' in change)) return `    - ${field}: ${showValue(before)}`;
  const isSame = showValue(before) === showValue(after);
  if (isSame) return `    ~ ${field}: replaced, also ${showValue(after)}`;
  return `    ~ ${field}: ${showValue(before)} -> ${showValue(after)}`;
}

function showValue(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > VALUE_CHARACTERS_MAX ? `${text.slice(0, VALUE_CHARACTERS_MAX)}…` : text;
}
