import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { buildProgram } from '#server/cli/program.ts';
import { describeApi } from '#server/openapi/document.ts';
import { referencePage } from '#server/openapi/reference.ts';
import { siteFiles } from '../../web/docs-site/plugin.ts';
import { listApiRoutes, managementRoutes } from './api-routes.ts';
import { withAuditTables } from './audit-format.ts';
import { auditVectors } from './audit-vectors.ts';
import { cliReference } from './cli-reference.ts';
import { withMetricTables } from './metrics-reference.ts';
import { withProtocolTables } from './protocol-matrix.ts';
import { ROOT } from './source.ts';

/**
 * `npm run docs`: writes the pages, and parts of pages, that are generated. `npm run docs -- --site DIR` also
 * writes the documentation as a static site, for any web server.
 */
const ignore = (): void => undefined;
const program = await buildProgram({ env: {}, out: ignore, err: ignore });
writeFileSync(path.join(ROOT, 'docs/cli.md'), cliReference(program));

writeFileSync(path.join(ROOT, 'docs/management-routes.md'), managementRoutes());

const protocols = path.join(ROOT, 'docs/protocols.md');
writeFileSync(protocols, withProtocolTables(readFileSync(protocols, 'utf8')));

const metrics = path.join(ROOT, 'docs/metrics.md');
writeFileSync(metrics, withMetricTables(readFileSync(metrics, 'utf8')));

const format = path.join(ROOT, 'docs/audit-format.md');
writeFileSync(format, withAuditTables(readFileSync(format, 'utf8')));
writeFileSync(path.join(ROOT, 'docs/audit-vectors.json'), `${JSON.stringify(auditVectors(), null, 2)}\n`);

const { site } = parseArgs({ options: { site: { type: 'string' } } }).values;
if (site !== undefined) {
  mkdirSync(site, { recursive: true });
  const reference = referencePage(describeApi(listApiRoutes()));
  for (const [name, text] of [...siteFiles(), ['api-reference.html', reference] as const])
    writeFileSync(path.join(site, name), text);
}
