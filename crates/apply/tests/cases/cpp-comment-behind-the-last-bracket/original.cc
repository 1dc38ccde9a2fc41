namespace store {

Status Repair(const std::string& name) {
  Repairer repairer(name);
  return repairer.Run();
}

}
