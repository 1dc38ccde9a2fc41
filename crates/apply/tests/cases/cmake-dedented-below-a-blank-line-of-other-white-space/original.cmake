add_library(ArgumentParser
  Utilities/SequenceExtensions.swift
  Utilities/SwiftExtensions.swift
  Utilities/Tree.swift
  
  Validators/CodingKeyValidator.swift
  Validators/NonsenseFlagsValidator.swift
  Validators/UniqueNamesValidator.swift)
