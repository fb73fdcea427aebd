import { keepCompiled } from '#db/compile-cache.ts';

/** `npm run worker`, and what a server starts beside itself. */
keepCompiled();
await import('./start.ts');
