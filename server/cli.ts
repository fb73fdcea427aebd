import { keepCompiled } from '#db/compile-cache.ts';

/** `npm run -s daybook -- …` */
keepCompiled();
await import('#server/cli/program.ts');
