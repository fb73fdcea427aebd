import { collect, type Command } from '#db/command-line/command.ts';
import { showTable } from '#db/command-line/table.ts';
import type { Model } from '#db/fold/model.ts';
import { ModelTerms } from '#db/events/upstream-events.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import type { ManagementApi } from '#server/cli/remote/management-api.ts';
import type { ModelRoute } from '#server/contract/models.ts';
import { checkTerms } from '#server/cli/accounts/terms-file.ts';
import { isChange } from '#server/control/change.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { requireModel } from '#server/decide/model.ts';
import { UpstreamControl } from '#server/control/upstream-control.ts';

type Options = { target?: string[]; fallback?: string[]; aliasOf?: string };

/** `daybook model …`: the routing of models. Their prices are `daybook price …`. */
export function modelCommands(program: Command): void {
  const model = program
    .command('model')
    .alias('models')
    .description('models and the upstreams that serve them');

  withServer(model.command('define').argument('<name>', "the model's name"))
    .description('define the targets of a model, or replace them')
    .option(
      '--target <target>',
      'upstream, upstream:model, or 3*upstream:model for a weight of 3; repeatable',
      collect,
    )
    .option(
      '--fallback <target>',
      'a target used when the ones before have failed; repeatable, in order',
      collect,
    )
    .option('--alias-of <model>', 'make this name an alias of another model, instead of targets')
    .action((name: string, options: Options, command: Command) =>
      run(
        command,
        async (session) => {
          const terms = readModelTerms(options);
          return { name, terms, changed: isChange(await controlOf(session).defineModel(name, terms)) };
        },
        ({ terms, changed }) =>
          `Model "${name}" ${changed ? 'is now' : 'is already'} routed to ${showTerms(terms)}.`,
        {
          async remote(api) {
            const terms = readModelTerms(options);
            return { name, terms, changed: isChange(await api.put('dispatch', { model: name, terms })) };
          },
        },
      ),
    );

  withServer(model.command('list'))
    .description('list defined models; others are served by the upstream that lists them')
    .action((_options: unknown, command: Command) =>
      run(command, listModels, showModels, { remote: modelsOf }),
    );

  withServer(model.command('show').argument('<name>', "the model's name"))
    .description('print the definition of a model')
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) => describe(requireModel(await control.loadModel(name), name)),
        ({ terms, version }) =>
          [
            `Model "${name}", version ${version}, is routed to ${showTerms(terms)}.`,
            JSON.stringify(terms, null, 2),
          ].join('\n'),
        {
          async remote(api) {
            const found = (await modelsOf(api)).find((each) => each.name === name);
            return requireModel(found && { ...found, state: 'active' as const }, name);
          },
        },
      ),
    );

  withServer(model.command('retire').argument('<name>', "the model's name"))
    .description('remove the definition of a model: the upstream that lists it serves it, if any')
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        async (session) => ({ name, changed: isChange(await controlOf(session).retireModel(name)) }),
        () => `Model "${name}" is no longer defined.`,
        {
          remote: async (api) => ({
            name,
            changed: isChange(await api.post('dispatch/retire', { model: name })),
          }),
        },
      ),
    );
}

const controlOf = ({ control, client, config }: Session): UpstreamControl =>
  new UpstreamControl(control, client, config);

function readModelTerms({ target = [], fallback = [], aliasOf }: Options): ModelTerms {
  const hasTargets = target.length > 0;
  if ((aliasOf !== undefined) === hasTargets || (aliasOf !== undefined && fallback.length > 0)) {
    throw new DecisionError('invalid', 'Give at least one --target, or --alias-of, but not both.');
  }
  if (aliasOf !== undefined) return checkTerms(ModelTerms.options[1], { alias_of: aliasOf }, '');
  const targets = [
    ...target.map((each) => readTarget(each, 0)),
    ...fallback.map((each, index) => readTarget(each, index + 1)),
  ];
  return checkTerms(ModelTerms.options[0], { targets }, '');
}

/** The name of an upstream has neither `*` nor `:`; that of a model may have both. */
function readTarget(text: string, order: number): object {
  const [, weight, upstream, model] = /^(?:(\d{1,6})\*)?([^:*]+)(?::(.+))?$/s.exec(text) ?? [];
  if (upstream === undefined)
    throw new DecisionError(
      'invalid',
      `"${text}" is not a target such as openai, openai:gpt-4o or 3*openai:gpt-4o.`,
    );
  return {
    upstream,
    ...(model === undefined ? {} : { model }),
    ...(weight === undefined ? {} : { weight: Number(weight) }),
    order,
  };
}

type Described = { name: string; version: number; terms: ModelTerms };

const describe = ({ name, version, terms }: Model): Described => ({ name, version, terms });

async function listModels({ control }: Session): Promise<Described[]> {
  const { directory } = await control.load();
  return [...directory.models]
    .filter(({ state }) => state === 'active')
    .map(describe)
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

const modelsOf = async (api: ManagementApi): Promise<Described[]> =>
  (await api.list<ModelRoute>('dispatch')).map(({ model, version, terms }) => ({
    name: model,
    version,
    terms,
  }));

function showModels(models: Described[]): string {
  if (models.length === 0)
    return [
      'No models are defined, so each call goes to the upstream that lists its model. Define one with:',
      'npm run -s daybook -- model define NAME --target UPSTREAM:MODEL',
    ].join(' ');
  return showTable(
    ['MODEL', 'TARGETS'],
    models.map(({ name, terms }) => [name, showTerms(terms)]),
  );
}

/** The targets in the order of attempts. */
export function showTerms(terms: ModelTerms): string {
  if ('alias_of' in terms) return `the targets of "${terms.alias_of}"`;
  const orders = [...Map.groupBy(terms.targets, ({ order }) => order)].toSorted(
    ([one], [other]) => one - other,
  );
  return orders
    .map(([, targets]) =>
      targets
        .map(
          ({ upstream, model, weight }) =>
            `${weight === 1 ? '' : `${weight}*`}${upstream}${model === undefined ? '' : `:${model}`}`,
        )
        .join(', '),
    )
    .join(', then ');
}
