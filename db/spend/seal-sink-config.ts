import { seal, unseal } from '#db/secrets/seal.ts';
import { SinkConfig } from '#db/spend/sink-config.ts';

const PURPOSE = 'daybook sink configuration';

/** Seals the configuration of the sink with this id: addresses are often secrets themselves. */
export function sealSinkConfig(pepper: Buffer, id: string, config: SinkConfig): Buffer {
  return seal(pepper, PURPOSE, id, JSON.stringify(config));
}

/** @throws {Error} if it was sealed under another pepper or for another sink, or was modified. */
export function unsealSinkConfig(pepper: Buffer, id: string, sealed: Buffer): SinkConfig {
  return SinkConfig.parse(JSON.parse(unseal(pepper, PURPOSE, id, sealed)));
}
