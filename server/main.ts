import '#server/process/heap.ts';
import { keepCompiled } from '#db/compile-cache.ts';

/** `npm start`. */
keepCompiled();
await import('#server/process/start.ts');
