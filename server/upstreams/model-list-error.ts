/** Why an upstream's list of models could not be read, although the upstream replied. */
export type ModelListFault =
  | { kind: 'status'; status: number }
  | { kind: 'not_json' | 'not_a_list' | 'too_large' | 'not_supported' };

export class ModelListError extends Error {
  override name = 'ModelListError';
  readonly fault: ModelListFault;

  constructor(fault: ModelListFault, options?: ErrorOptions) {
    super(
      fault.kind === 'status' ? `model list: status ${fault.status}` : `model list: ${fault.kind}`,
      options,
    );
    this.fault = fault;
  }
}
