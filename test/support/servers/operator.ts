/** The token of every server of the tests, and the header with which `/readyz` reports its details. */
export const READYZ_TOKEN = 'test-readyz-token';
export const AS_OPERATOR = { authorization: `Bearer ${READYZ_TOKEN}` };
