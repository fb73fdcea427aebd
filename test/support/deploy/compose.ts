import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { ROOT } from '../../layout/source.ts';

const Text = z.union([z.string(), z.number()]).transform(String);

/** What the tests need to know of a service; its whole form is the specification's. */
const Service = z.looseObject({
  image: z.string(),
  build: z.object({ context: z.literal('.') }).optional(),
  command: z.array(z.string()),
  user: z.string().optional(),
  environment: z.record(z.string(), Text).default({}),
  secrets: z.array(z.string()).default([]),
  networks: z.array(z.string()),
  ports: z.array(z.string()).default([]),
  read_only: z.literal(true),
  cap_drop: z.tuple([z.literal('ALL')]),
  security_opt: z.tuple([z.literal('no-new-privileges:true')]),
  restart: z.string(),
  stop_signal: z.string().default('SIGTERM'),
  stop_grace_period: z.string().default('10s'),
  healthcheck: z.looseObject({ test: z.tuple([z.literal('CMD')], z.string()) }).optional(),
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).default({}),
});
export type Service = z.infer<typeof Service>;

const Compose = z.looseObject({
  services: z.record(z.string(), Service),
  networks: z.record(z.string(), z.looseObject({ internal: z.boolean().default(false) })),
  secrets: z.record(z.string(), z.object({ file: z.string() })),
  configs: z.record(z.string(), z.object({ file: z.string() })),
});
export type Compose = z.infer<typeof Compose>;

/** docker-compose.yml as it is written, for the specification's schema. */
export function readComposeText(): string {
  return readFileSync(path.join(ROOT, 'docker-compose.yml'), 'utf8');
}

/** docker-compose.yml as Compose takes it, with the default of each `${NAME:-default}`. */
export function readCompose(): Compose {
  const text = readComposeText().replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1');
  return Compose.parse(parse(text, { merge: true }));
}

/** The service of this name. @throws {Error} when it does not exist. */
export function serviceOf({ services }: Compose, name: string): Service {
  const service = services[name];
  if (service === undefined) throw new Error(`docker-compose.yml has no service ${name}`);
  return service;
}

/** Dockerfile as it is written. */
export function readDockerfile(): string {
  return readFileSync(path.join(ROOT, 'Dockerfile'), 'utf8');
}

/** The instructions of the image, such as `['COPY', '--from=package /package /app']`. */
export function imageLines(): [instruction: string, rest: string][] {
  const lines = readDockerfile()
    .replaceAll(/\\\n\s*/g, '')
    .split('\n');
  return lines
    .filter((line) => /^[A-Z]/.test(line))
    .map((line) => {
      const [instruction = '', ...rest] = line.split(' ');
      return [instruction, rest.join(' ')];
    });
}

/** The instructions of the last stage: what containers have. */
export function finalStage(): [instruction: string, rest: string][] {
  const lines = imageLines();
  return lines.slice(lines.findLastIndex(([word]) => word === 'FROM'));
}

/** The arguments of an instruction of the last stage that takes a list. @throws {Error} without one. */
export function listOf(instruction: string): string[] {
  const [, rest] = finalStage().find(([word]) => word === instruction) ?? [];
  if (rest === undefined) throw new Error(`Dockerfile has no ${instruction}`);
  return JSON.parse(rest) as string[];
}
