import { keepCompiled } from '#db/compile-cache.ts';
import { registerModuleResolver } from '#db/module-resolver.ts';

/** Entry point of `npm run -s audit -- …`: the audit commands alone, without the server and the worker. */
keepCompiled();
registerModuleResolver();
const { AUDIT_COMMANDS } = await import('#db/audit/commands/program.ts');
const { witnessCommand } = await import('#db/audit/commands/witness.ts');
const { processSurroundings } = await import('#db/command-line/process-streams.ts');
const { codeOfStore, runCommands } = await import('#db/command-line/run.ts');
process.exitCode = await runCommands(
  {
    name: 'audit',
    description:
      'Export, verify, replay and prove the event log of a Daybook relay without trusting its ' +
      'operator: from a database as the role daybook_auditor, or from exported files.',
    groups: [...AUDIT_COMMANDS, witnessCommand],
    codeOf: codeOfStore,
  },
  process.argv.slice(2),
  processSurroundings('audit'),
);
