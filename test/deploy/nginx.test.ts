import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { canRunNginx, type Nginx, recommendedSite, startNginx } from '../support/deploy/nginx.ts';
import { UPLOADS, uploads } from '../support/deploy/uploads.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { refusedPort } from '../support/upstream/upstream.ts';

/**
 * Refusals through a real nginx, to clients that are still sending. Skipped where nginx is not installed: on
 * Debian `apt-get install nginx` brings it.
 */

let relay: TestRelay;
let nginx: Nginx;
const ports: number[] = [];

const UPSTREAM = { plain: 'proxy_pass http://127.0.0.1:RELAY;', kept: 'proxy_pass http://kept;' };
const HTTP_11 = 'proxy_http_version 1.1;';
const KEPT = `${HTTP_11} proxy_set_header Connection "";`;
const UNBUFFERED = 'proxy_request_buffering off;';
/** How tutorials configure it: `proxy_pass` alone is HTTP/1.0, which closes each connection. */
const TUTORIALS = {
  'HTTP/1.0': UPSTREAM.plain,
  'HTTP/1.0, body passed on as it comes': `${UPSTREAM.plain} ${UNBUFFERED}`,
  'HTTP/1.1, connections closed': `${UPSTREAM.plain} ${HTTP_11}`,
  'HTTP/1.1, connections kept': `${UPSTREAM.kept} ${KEPT}`,
  'HTTP/1.1, connections kept, body passed on as it comes': `${UPSTREAM.kept} ${KEPT} ${UNBUFFERED}`,
};
const SITES = [...Object.keys(TUTORIALS), 'deploy/nginx.conf'];

describe.skipIf(!canRunNginx)('a refusal reaches a client that is still sending, behind nginx', () => {
  beforeAll(async () => {
    relay = await startRelay({ env: { MAX_BODY_MB: '1' } });
    for (const _ of SITES) ports.push(await refusedPort());
    const sites = Object.values(TUTORIALS).map(
      (location, index) =>
        `server { listen 127.0.0.1:${ports[index]}; client_max_body_size 50m; location / {
          ${location.replace('RELAY', String(relay.port))}
        } }`,
    );
    const kept = `upstream kept { server 127.0.0.1:${relay.port}; keepalive 8; }`;
    const own = recommendedSite(ports[SITES.length - 1] as number, relay.port);
    nginx = await startNginx(path.join(relay.dataDir, 'nginx'), [kept, ...sites, own], ports);
  });

  afterAll(async () => {
    await nginx?.[Symbol.asyncDispose]();
    await relay?.[Symbol.asyncDispose]();
  });

  test.each(SITES.map((name, index) => [name, index] as const))('%s', async (_name, index) => {
    const port = ports[index] as number;
    const seen = [...(await uploads(port, 'wrong')), ...(await uploads(port, relay.key))];
    const wanted = ['401 invalid_api_key', '413 request_too_large'].flatMap((each) =>
      Array.from({ length: UPLOADS }, () => each),
    );
    expect(seen, nginx.errors().slice(-2_000)).toEqual(wanted);
  });
});
