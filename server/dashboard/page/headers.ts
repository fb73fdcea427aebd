import type { RequestHandler } from 'express';
import helmet, { type HelmetOptions } from 'helmet';
import { isSecure, type Reach } from '#server/sign-in/origin.ts';

const SELF = "'self'";
const NONE = "'none'";

/**
 * Content security policy: only scripts, styles and images from this server's files run or load, so no text,
 * whether the name of a key or a model's output, becomes script or markup.
 */
const POLICY = {
  'default-src': [NONE],
  'script-src': [SELF],
  'style-src': [SELF],
  'img-src': [SELF, 'data:'],
  'font-src': [SELF],
  'connect-src': [SELF],
  'form-action': [SELF],
  'base-uri': [NONE],
  'frame-ancestors': [NONE],
  'manifest-src': [SELF],
  'require-trusted-types-for': ["'script'"],
  'trusted-types': [NONE],
};

const YEAR_S = 365 * 24 * 3600;

const COMMON = {
  contentSecurityPolicy: { useDefaults: false, directives: POLICY },
  xFrameOptions: { action: 'deny' },
} as const satisfies HelmetOptions;

/** The page needs only the clipboard, to copy a secret. */
const PERMISSIONS =
  'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=(), clipboard-write=(self)';

/**
 * Headers of the dashboard's page and API. HSTS is sent over TLS only: a dashboard in a home network has no
 * TLS, and would become unreachable.
 */
export function pageHeaders(reach: Reach): RequestHandler {
  const plain = helmet({ ...COMMON, strictTransportSecurity: false });
  const secure = helmet({ ...COMMON, strictTransportSecurity: { maxAge: YEAR_S, includeSubDomains: false } });
  return (request, response, next) => {
    response.setHeader('permissions-policy', PERMISSIONS);
    (isSecure(request, reach) ? secure : plain)(request, response, next);
  };
}
