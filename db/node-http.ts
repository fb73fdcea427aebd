/**
 * `node:http`. An import statement reads all exports of a module, and WebSocket among these loads Node's own
 * undici, which nothing here needs: 30 ms of CPU time at each start.
 */
export const http = process.getBuiltinModule('node:http');
