// The underscores mark what this file is about: the internals of other packages.
/* oxlint-disable no-underscore-dangle */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import path from 'node:path';
import { Client, type ClientConfig, Connection, Query } from 'pg';
import { request } from 'undici';
import { describe, expect, it } from 'vitest';
import { readFolders, ROOT } from './source.ts';

/**
 * Internals of other packages that the program relies on, which no type and no release note covers. A new
 * version that drops one fails here, by its name. The messages of node:cluster that
 * server/process/connection-handover.ts reads can't be seen without processes:
 * test/process/server-cluster.test.ts fails when they change.
 */
const INTERNALS: Record<string, { uses: RegExp; files: readonly string[] }> = {
  'node: socket._httpMessage': { uses: /\b_httpMessage\b/, files: ['server/http/app.ts'] },
  'node: server.httpAllowHalfOpen': { uses: /\bhttpAllowHalfOpen\b/, files: ['server/http/half-closed.ts'] },
  'node: tlsSocket._parent': { uses: /\b_parent\b/, files: ['server/http/reset-connection.ts'] },
  'undici: channel undici:client:sendHeaders': {
    uses: /undici:client:sendHeaders/,
    files: ['server/wire/slabs.ts'],
  },
  'undici: channel undici:client:connected and its parser': {
    uses: /undici:client:connected|onHeadersComplete/,
    files: ['server/upstreams/continue-replies.ts'],
  },
  'graphile-worker: table _private_jobs': { uses: /\b_private_jobs\b/, files: ['worker/tasks/retain.ts'] },
  'pg: client.connection.stream': {
    uses: /\bconnection\.stream\b/,
    files: [
      'db/backup/copy.ts',
      'db/postgres/connect.ts',
      'db/postgres/embedded/postmaster.ts',
      'db/postgres/locks.ts',
      'server/dashboard/audit/checks.ts',
      'worker/tasks/publish-checkpoint.ts',
    ],
  },
  'pg: client.connectionParameters': {
    uses: /\bconnectionParameters\b/,
    files: ['db/postgres/client.ts', 'db/postgres/connect.ts'],
  },
  'pg: the queue of statements': {
    uses: /\b(?:_queryQueue|_pulseQueryQueue)\b/,
    files: ['db/postgres/client.ts'],
  },
  'pg: handleCopyData and sendCopyFromChunk': {
    uses: /\b(?:handleCopyData|sendCopyFromChunk)\b/,
    files: ['db/backup/copy.ts'],
  },
};

describe('internals of other packages', () => {
  const sources = readFolders(['db', 'server', 'worker']);
  it.each(Object.entries(INTERNALS))('%s is used by the named files only', (_, { uses, files }) => {
    const using = sources.filter(({ text }) => uses.test(text)).map(({ path: name }) => name);
    expect(using.toSorted()).toEqual(files);
  });

  it('node: a socket names the response under way as _httpMessage', async () => {
    const server = createServer((incoming, response) => {
      const socket = incoming.socket as Socket & { _httpMessage?: ServerResponse };
      response.end(String(socket._httpMessage === response));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const reply = await request(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    expect(await reply.body.text()).toBe('true');
    server.closeAllConnections();
    server.close();
  });

  it('undici: publishes undici:client:sendHeaders with the request body and the socket', async () => {
    const server = createServer((incoming, response) => incoming.resume().on('end', () => response.end()));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const seen: { request: { body?: unknown }; socket: unknown }[] = [];
    const listener = (message: unknown): void => void seen.push(message as (typeof seen)[number]);
    subscribe('undici:client:sendHeaders', listener);
    const body = Buffer.from('body');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await (await request(url, { method: 'POST', body })).body.dump();
    unsubscribe('undici:client:sendHeaders', listener);
    expect(seen).toHaveLength(1);
    expect(seen[0]?.request.body).toBe(body);
    expect(seen[0]?.socket).toBeInstanceOf(Socket);
    server.closeAllConnections();
    server.close();
  });

  it('graphile-worker: keeps jobs in _private_jobs, with the columns that retention reads', () => {
    // The newest definition of add_jobs, which writes and returns rows of the table.
    const folder = path.join(ROOT, 'node_modules/graphile-worker/sql');
    const migrations = readdirSync(folder)
      .toSorted()
      .map((name) => readFileSync(path.join(folder, name), 'utf8'));
    const statements = migrations.findLast((text) => /insert into \S+\._private_jobs/.test(text)) ?? '';
    expect(migrations.at(-1)).not.toMatch(/drop table [^;]*_private_jobs|_private_jobs rename/i);
    for (const column of ['attempts', 'max_attempts', 'locked_at', 'updated_at'])
      expect(statements).toMatch(new RegExp(`\\b${column}\\b`));
  });

  it('pg: a client has a connection with a stream that can be destroyed', () => {
    const { stream } = new Client().connection as Connection & { stream: Socket };
    expect(stream).toBeInstanceOf(Socket);
    stream.destroy();
    expect(stream.destroyed).toBe(true);
  });

  it('pg: keeps what a client connects with as connectionParameters', () => {
    const client = new Client({ host: '/run', user: 'u', password: 'p', options: '-c role=r' });
    const { connectionParameters: like } = client as unknown as { connectionParameters: ClientConfig };
    expect(new Client({ ...like, password: like.password })).toMatchObject({
      host: '/run',
      user: 'u',
      password: 'p',
      connectionParameters: { options: '-c role=r' },
    });
  });

  it('pg: a statement waits in _queryQueue, and _pulseQueryQueue sends the next one', () => {
    const client = new Client() as unknown as { _queryQueue: unknown; _pulseQueryQueue: unknown };
    expect(client._queryQueue).toEqual([]);
    expect(client._pulseQueryQueue).toBeTypeOf('function');
  });

  it('pg: the time-out of statements is read from connectionParameters for each one', () => {
    const client = new Client({ query_timeout: 5 });
    expect(client).toMatchObject({ connectionParameters: { query_timeout: 5 } });
    expect(String(client.query)).toContain('this.connectionParameters.query_timeout');
  });

  it('pg: passes rows of COPY to handleCopyData of the query, and sends them by sendCopyFromChunk', () => {
    const received: unknown[] = [];
    const query = Object.assign(new Query('copy t to stdout'), {
      handleCopyData: (message: unknown) => received.push(message),
    });
    const client = new Client() as unknown as {
      _getActiveQuery(): unknown;
      _handleCopyData(message: unknown): void;
    };
    // What pg does when Postgres sends a row of the query that is under way.
    client._getActiveQuery = () => query;
    client._handleCopyData({ chunk: Buffer.from('1\n') });
    expect(received).toEqual([{ chunk: Buffer.from('1\n') }]);
    const methods = Connection.prototype as unknown as Record<string, unknown>;
    for (const name of ['sendCopyFromChunk', 'endCopyFrom', 'sendCopyFail'])
      expect(methods[name]).toBeTypeOf('function');
  });
});
