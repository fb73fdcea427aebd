import { keepCompiled } from '#db/compile-cache.ts';
import { registerModuleResolver } from '#db/module-resolver.ts';

/** `npm run worker`, and what a server starts beside itself. */
keepCompiled();
registerModuleResolver();
await import('./start.ts');
