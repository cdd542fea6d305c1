/** One result of a validation: what is wrong or noteworthy, where, and what would be right. */
export interface Finding {
  severity: 'error' | 'warning';
  /** Stable, snake_case. */
  code: string;
  /** A sentence a person understands. */
  message: string;
  /**
   * The place: a file or archive entry, a JSON Pointer or key path, a line and column (from 1). Each is null
   * if unknown.
   */
  file: string | null;
  pointer: string | null;
  line: number | null;
  column: number | null;
}

export function finding(
  severity: Finding['severity'],
  code: string,
  message: string,
  place: Partial<Pick<Finding, 'file' | 'pointer' | 'line' | 'column'>> = {},
): Finding {
  return { severity, code, message, file: null, pointer: null, line: null, column: null, ...place };
}

/** `file:line:column: message`, as compilers print it, without the parts that are null. */
export function describeFinding({ file, pointer, line, column, message }: Finding): string {
  const position = [file, line, column].filter((part) => part !== null).join(':');
  const place = [position, pointer ?? ''].filter((part) => part !== '').join(' ');
  return place === '' ? message : `${place}: ${message}`;
}
