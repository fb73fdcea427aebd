import { CommanderError } from 'commander';
import { userInfo } from 'node:os';
import type { Command } from '#db/command-line/command.ts';
import { type AppliedFile, readApplyFile } from '#server/cli/upstreams/apply-file.ts';
import { showDifferences, showDrift } from '#server/cli/upstreams/apply-text.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import type { ManagementApi } from '#server/cli/remote/management-api.ts';
import { confirm } from '#server/cli/input.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import {
  APPLY_ACTOR,
  commitDesiredState,
  planDesiredState,
  type PlannedDifference,
} from '#server/control/desired-state.ts';
import type { DeclaredState, StateApplied, StatePlan } from '#server/contract/desired-state/desired-state.ts';
import type { DesiredState } from '#server/decide/apply.ts';

/** The exit code of a plan with differences, and of drift. */
const DIFFERENT = 2;

type Options = { prune?: true };
type ApplyOptions = Options & { yes?: true; dryRun?: true };
type Outcome = 'nothing to do' | 'would change' | 'applied' | 'left' | 'no drift' | 'drift';
type Applied = { outcome: Outcome; differences: PlannedDifference[]; position: number | null };

/** Plans, and applies its plan. */
type Target = {
  plan: () => Promise<PlannedDifference[]>;
  /** @param isAgreed whether a person has agreed to exactly these differences. */
  commit: (isAgreed: boolean) => Promise<number | null>;
};

/** Ends a command that found differences. */
class FoundDifferences extends CommanderError {
  constructor() {
    super(DIFFERENT, 'daybook.would_change', '');
  }
}

/** `daybook apply …` and `daybook drift …` */
export function applyCommand(program: Command): void {
  withOptions(program, 'apply')
    .description(
      'apply upstreams, models, plans and prices that a file declares: shows the differences, and asks',
    )
    .option('--yes', 'apply without asking')
    .option('--dry-run', `plan: only show the differences; exits with ${DIFFERENT} if there are any`)
    .action((file: string, options: ApplyOptions, command: Command) =>
      withTarget(command, file, options, (target) =>
        options.dryRun === true ? planned(target) : applied(command, target, options.yes === true),
      ),
    );
  withOptions(program, 'drift')
    .description(
      'show what others changed beside the file, by which actor and event of the log; exits with 0 if ' +
        `nothing, with ${DIFFERENT} if anything, with 1 on failure`,
    )
    .action((file: string, options: Options, command: Command) => withTarget(command, file, options, drift));
}

function withOptions(program: Command, name: string): Command {
  const named = program.command(name).argument('<config.yaml>', 'the file that declares them');
  return withServer(named).option(
    '--prune',
    'also remove upstreams, models and credentials that the sections of the file do not name',
  );
}

async function withTarget(
  command: Command,
  file: string,
  { prune, yes }: ApplyOptions,
  work: (target: Target) => Promise<Applied>,
): Promise<void> {
  const { env } = command.surroundings;
  const declared = readApplyFile(file, env);
  const shown = (done: Applied): string => show(done, yes !== true);
  let isDifferent = false;
  const noted = async (target: Target): Promise<Applied> => {
    const done = await work(target);
    isDifferent = done.outcome === 'would change' || done.outcome === 'drift';
    return done;
  };
  await run(command, (session) => noted(databaseTarget(session, declared, prune === true)), shown, {
    actor: actorOf(),
    remote: (api) => noted(remoteTarget(api, declared, prune === true)),
  });
  if (isDifferent) throw new FoundDifferences();
}

function databaseTarget(session: Session, { wanted, placeOf }: AppliedFile, prune: boolean): Target {
  let plan: Awaited<ReturnType<typeof planDesiredState>>;
  return {
    async plan() {
      plan = await planDesiredState(session, wanted, { prune, placeOf });
      return plan.differences;
    },
    commit: () => commitDesiredState(session, plan),
  };
}

function remoteTarget(api: ManagementApi, { wanted }: AppliedFile, prune: boolean): Target {
  const body = { state: declaredState(wanted), prune };
  let digest: string;
  return {
    async plan() {
      const plan = await api.post<StatePlan>('desired-state/plan', body);
      ({ digest } = plan);
      return plan.differences;
    },
    async commit(isAgreed) {
      const agreed = isAgreed ? { digest } : {};
      const { event } = await api.post<StateApplied>('desired-state/apply', { ...body, ...agreed });
      return event?.position ?? null;
    },
  };
}

/** The state as the API takes it. */
function declaredState({ upstreams, models, plans, prices }: DesiredState): DeclaredState {
  return {
    ...(upstreams && {
      upstreams: Object.fromEntries(
        [...upstreams].map(([name, { terms, saysPaused, credentials }]) => [
          name,
          {
            terms,
            keep_paused: !saysPaused,
            ...(credentials && { credentials: Object.fromEntries(credentials) }),
          },
        ]),
      ),
    }),
    ...(models && { models: Object.fromEntries(models) }),
    ...(plans && { plans: Object.fromEntries(plans) }),
    ...(prices && { prices: Object.fromEntries(prices) }),
  };
}

/** The actor: the user of the operating system, in the characters that an actor may have. */
function actorOf(): string {
  let name = 'unknown';
  try {
    name = userInfo().username;
  } catch {
    // A container's user may have no name.
  }
  return APPLY_ACTOR + name.replaceAll(/[^A-Za-z0-9._-]/g, '-').slice(0, 64);
}

async function planned({ plan }: Target): Promise<Applied> {
  const differences = await plan();
  const outcome = differences.length === 0 ? 'nothing to do' : 'would change';
  return { outcome, differences, position: null };
}

async function drift({ plan }: Target): Promise<Applied> {
  const differences = (await plan()).filter(({ changed_by }) => changed_by.length > 0);
  return { outcome: differences.length === 0 ? 'no drift' : 'drift', differences, position: null };
}

async function applied(command: Command, target: Target, isYes: boolean): Promise<Applied> {
  const before = await planned(target);
  if (before.outcome === 'nothing to do') return before;
  const { differences } = before;
  if (!isYes) {
    command.surroundings.err(`${showDifferences(differences)}\n`);
    if (!(await confirm(command, 'Make these changes?')))
      return { outcome: 'left', differences: [], position: null };
  }
  const position = await target.commit(!isYes);
  return { outcome: 'applied', differences, position };
}

/** @param isSeen whether the user who agreed has seen the differences. */
function show({ outcome, differences, position }: Applied, isSeen: boolean): string {
  switch (outcome) {
    case 'nothing to do':
      return 'Nothing to do: the current state matches the file.';
    case 'no drift':
      return 'No drift: others changed nothing that the file declares.';
    case 'left':
      return 'Nothing was changed.';
    case 'would change':
      return showDifferences(differences);
    case 'drift':
      return showDrift(differences);
    case 'applied': {
      const done = `Applied, up to position ${position} of the log.`;
      return isSeen ? done : `${showDifferences(differences)}\n${done}`;
    }
  }
}
