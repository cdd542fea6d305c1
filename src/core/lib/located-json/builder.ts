import { escapePointer, pointerSegments } from './measure.ts';

/** An object or array that is still open, and the position inside it. */
export interface Frame {
  value: Record<string, unknown> | unknown[];
  /** The keys seen so far in an object; null for an array. */
  keys: Set<string> | null;
  /** The key or index of the current value; null if a property has no usable name. */
  segment: string | number | null;
  place: ValueOffsets | undefined;
  isEmpty: boolean;
}

/** Builds a value without recursion. Along the way, it notes where the requested locations are. */
export class JsonBuilder {
  /** The whole document; undefined before the first token. */
  value: unknown = undefined;
  readonly frames: Frame[] = [];
  readonly #root: ValueOffsets;

  constructor(root: ValueOffsets) {
    this.#root = root;
  }

  get frame(): Frame | undefined {
    return this.frames.at(-1);
  }

  open(isObject: boolean, offset: number): void {
    const value = isObject ? {} : [];
    const place = this.put(value, offset);
    const keys = isObject ? new Set<string>() : null;
    this.frames.push({ value, keys, segment: isObject ? null : 0, place, isEmpty: true });
  }

  /** Sets the name of the next property. Returns true if the object already has one with that name. */
  name(key: string, offset: number): boolean {
    const { frame } = this;
    if (frame === undefined) return false;
    frame.segment = key;
    const isThere = frame.keys?.has(key) === true;
    frame.keys?.add(key);
    const place = frame.place?.children.get(key);
    if (place !== undefined) place.key = offset;
    return isThere;
  }

  put(value: unknown, offset: number): ValueOffsets | undefined {
    const { frame } = this;
    if (frame === undefined) {
      this.value = value;
      this.#root.value = offset;
      return this.#root;
    }
    frame.isEmpty = false;
    if (frame.segment === null) return undefined;
    if (Array.isArray(frame.value)) frame.value.push(value);
    else if (frame.segment !== '__proto__') frame.value[frame.segment] = value;
    else {
      // Simply assigning to `__proto__` would change the prototype.
      const property = { value, enumerable: true, configurable: true, writable: true };
      Object.defineProperty(frame.value, frame.segment, property);
    }
    const place = frame.place?.children.get(String(frame.segment));
    if (place !== undefined) place.value = offset;
    return place;
  }

  /** Returns a JSON Pointer to the current value. */
  pointer(): string {
    return this.frames.map(({ segment }) => `/${escapePointer(segment ?? '')}`).join('');
  }
}

/** The offsets of a value and its property name; null as long as they have not been found. */
export interface ValueOffsets {
  value: number | null;
  key: number | null;
  children: Map<string, ValueOffsets>;
}

/** Returns the requested locations as a tree, so that finding them adds no cost for other values. */
export function placesOf(pointers: Iterable<string>): ValueOffsets {
  const root = newPlace();
  for (const pointer of pointers) {
    let place = root;
    for (const segment of pointerSegments(pointer)) {
      let child = place.children.get(segment);
      if (child === undefined) {
        child = newPlace();
        place.children.set(segment, child);
      }
      place = child;
    }
  }
  return root;
}

/** Returns the offset of the value at this pointer, or of the closest value around it if there is none. */
export function valueOffset(root: ValueOffsets, pointer: string): number {
  let place = root;
  for (const segment of pointerSegments(pointer)) {
    const child = place.children.get(segment);
    if (child?.value == null) break;
    place = child;
  }
  return place.value ?? 0;
}

/** Returns the offset of the property name at this pointer, or null if there is none. */
export function keyOffset(root: ValueOffsets, pointer: string): number | null {
  let place: ValueOffsets | undefined = root;
  for (const segment of pointerSegments(pointer)) place = place?.children.get(segment);
  return place?.key ?? null;
}

function newPlace(): ValueOffsets {
  return { value: null, key: null, children: new Map() };
}
