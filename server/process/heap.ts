import { setFlagsFromString } from 'node:v8';

// Imported before everything else. Without this flag V8 runs a full collection after about every
// 64 MB of request bodies, at a price that grows with the number of live keys. It is an internal
// flag that Node does not take from NODE_OPTIONS.
setFlagsFromString('--external-memory-accounted-in-global-limit');
