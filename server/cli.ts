import { keepCompiled } from '#db/compile-cache.ts';
import { registerModuleResolver } from '#db/module-resolver.ts';

/** `npm run -s daybook -- …` */
keepCompiled();
registerModuleResolver();
const { runProgram } = await import('#server/cli/program.ts');
const { processSurroundings } = await import('#db/command-line/process-streams.ts');
process.exitCode = await runProgram(process.argv.slice(2), processSurroundings('daybook'));
