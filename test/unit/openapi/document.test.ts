import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, it } from 'vitest';
import { describeApi, type Operation } from '#server/openapi/document.ts';
import { listApiRoutes } from '../../layout/api-routes.ts';

const routes = listApiRoutes();
const document = describeApi(routes);
const text = JSON.stringify(document);
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
);
const named = ({ path, method }: { path: string; method: string }): string => `${method} ${path}`;

describe('the OpenAPI document', () => {
  it('is valid OpenAPI 3.1', async () => {
    const { valid, errors } = await new Validator().validate({ ...structuredClone(document) });
    expect({ valid, errors }).toEqual({ valid: true, errors: undefined });
  });

  it('describes every route of the management API with its scope, and no other below /api', () => {
    const described = operations
      .filter(({ path }) => path.startsWith('/api/'))
      .map((each) => ({ route: named(each), scopes: scopesOf(each.operation) }));
    const served = routes.map(({ method, path, scope }) => ({
      route: `${method} ${path.replace(/:(\w+)/g, '{$1}')}`,
      scopes: scope === null ? [] : [scope],
    }));
    const byRoute = (one: { route: string }, other: { route: string }): number =>
      one.route < other.route ? -1 : 1;
    expect(described.toSorted(byRoute)).toEqual(served.toSorted(byRoute));
  });

  it('has unique operation ids, and a summary, a tag, security and errors for every operation', () => {
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([]);
    for (const { operation } of operations) {
      expect(operation.summary).toMatch(/^[A-Z]/);
      expect(operation.tags).toHaveLength(1);
      expect(operation.security.length).toBeGreaterThan(0);
      expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(['4XX', '5XX']));
    }
  });

  it('declares each parameter of a path, and refers to no schema that is missing', () => {
    for (const { path, operation } of operations) {
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      const declared = (operation.parameters ?? []).filter((each) => each['in'] === 'path');
      expect(declared.map(({ name }) => name)).toEqual(inPath);
    }
    const refs = [...text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map(
      ([, name]) => name as string,
    );
    expect(refs.length).toBeGreaterThan(100);
    expect(refs.filter((name) => !(name in document.components.schemas))).toEqual([]);
    expect(text.replaceAll('"$ref":"#/components/', '')).not.toContain('"$ref":"');
  });
});

const scopesOf = ({ security }: Operation): string[] =>
  security.flatMap((each) => each['management_key'] ?? []);
