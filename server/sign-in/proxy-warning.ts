import type { RequestHandler } from 'express';
import { type AddressSet, isWithin, plainAddress } from '#server/access/networks.ts';
import type { Logger } from '#db/diagnostics/logger.ts';

/**
 * Warns once about forwarded headers from a proxy that isn't trusted: all its clients count as one network,
 * and their connections as plain. A client may forge such headers, so it is only a warning.
 */
export function proxyWarning(trustedProxies: AddressSet | null, log: Pick<Logger, 'warn'>): RequestHandler {
  let isSaid = false;
  return ({ headers, socket }, _response, next) => {
    const isForwarded =
      headers['x-forwarded-for'] !== undefined || headers['x-forwarded-proto'] !== undefined;
    if (
      !isSaid &&
      isForwarded &&
      !(trustedProxies !== null && isWithin(trustedProxies, plainAddress(socket.remoteAddress ?? '')))
    ) {
      isSaid = true;
      log.warn('X-Forwarded headers from an untrusted proxy ignored; add your proxy to TRUSTED_PROXIES');
    }
    next();
  };
}
