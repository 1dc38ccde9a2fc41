import { Store } from "./store";

export class UserService {
  private store: Store;

  constructor(store: Store) {
    this.store = store;
  }

  find(id: string) {
    return this.store.get(id);
  }
}

export class RoleService {
  list() {
    return [];
  }
}

export function isAdmin(name: string) {
  return name === "admin";
}
