import type { Fault } from './schema/findings.ts';
import type { KeyPath } from './yaml-text.ts';

/** Settings that hold a path, by the name of their key, wherever they stand. */
const pathSettings = new Set([
  ...['path', 'directory', 'scratch_directory', 'base_dir'],
  ...['ssh_key_file', 'ssh_agent_socket', 'known_hosts_file'],
]);
/** As a shell would expand it. */
const variable = /\$(?:\{\w+\}|[A-Za-z_]\w*)|^%\w+%/;

/** Warns of what looks like a variable in a path: nothing expands it, but a directory may be called so. */
export function pathFaults(document: unknown): Fault[] {
  const faults: Fault[] = [];
  const look = (value: unknown, path: KeyPath): void => {
    if (Array.isArray(value)) value.forEach((item, index) => look(item, [...path, index]));
    else if (typeof value === 'object' && value !== null)
      for (const [key, inner] of Object.entries(value)) look(inner, [...path, key]);
    else if (typeof value === 'string' && pathSettings.has(String(path.at(-1)))) {
      const [found] = variable.exec(value) ?? [];
      if (found !== undefined) faults.push(literal(found, path));
    }
  };
  look(document, []);
  return faults;
}

function literal(found: string, path: KeyPath): Fault {
  return {
    severity: 'warning',
    code: 'variable_in_path',
    path,
    part: 'value',
    message: `${found} is not expanded, and taken as part of the name; write the path itself ("~/" is your home directory)`,
  };
}
